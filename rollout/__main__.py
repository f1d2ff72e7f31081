"""`python -m rollout` is the command `rollout`."""

from rollout.cli import main

if __name__ == "__main__":
    main()
