#!/usr/bin/env bash
# A web experiment: roll out training tasks, now and then the test tasks, update the model, and again. See --help.
#
# Each phase leaves a trace that says it is over: iteration.json of `rollout web`, or a file in <save-path>/phases. The
# first phase without one is where the script begins, so it can be killed at any time. What it starts runs in process
# groups of its own; a guard that reads from a pipe ends those when this process is gone, however it went.
set -uo pipefail

usage() {
    cat <<'HELP'
Usage: ./run.sh --save-path FOLDER --data-path FOLDER --model NAME [OPTIONS] [KEY=VALUE...]

  Run a web experiment: `rollout web` on the training tasks, on the test tasks every K-th
  iteration, then your update command; again and again. The same command resumes it after
  it was stopped or killed, in the phase where it was.

What:
  --save-path FOLDER       the folder of the experiment (also --log-path); created if missing
  --data-path FOLDER       the folder with train.jsonl and test.jsonl
  --iterations N           end after N iterations; 0 (default): run until stopped
  --test-every K           test in iterations 0, K, 2K, … (also --eval-interval);
                           0: never; default 1
  --rl-phase PHASE         rollout, update or both (default): which phases are run
  --rollout-split SPLIT    train-only, eval-only (one test, then end) or both (default)
  --resume                 accepted: an experiment is always resumed
  --dry-run                check both configurations, run nothing
  KEY=VALUE                a key of `rollout web`, for training and tests
  --train KEY=VALUE        a key for training only; --test KEY=VALUE: for tests only

The model:
  --model NAME             policy_config.base_model: a model of a server, provider/model, or
                           builtin/oracle
  --server-url URL         the address of a running server
  --serve                  serve the model here with vLLM, and then each checkpoint
  --serve-command COMMAND  the same with your own command, which gets ROLLOUT_SERVE_MODEL,
                           ROLLOUT_SERVE_HOST and ROLLOUT_SERVE_PORT, and answers at /health
  --port N, --host HOST    where it is served; default 8999 on localhost
  --serve-timeout SECONDS  how long it may take to start; default 1800

The update step:
  --update COMMAND         run by bash after the rollouts of an iteration; the server is
                           stopped meanwhile. Without it the model stays as it is. It gets:
    ROLLOUT_ITERATION            the number of the iteration, from 0
    ROLLOUT_SAVE_PATH            the folder of the experiment
    ROLLOUT_TRAJECTORIES         train_trajectories.pt.iteration<N>, as trainers load it
    ROLLOUT_TRAJECTORIES_JSONL   the same, one JSON object a line
    ROLLOUT_RUN_DIR              the run directory: `rollout train-data` makes rows of it
    ROLLOUT_TEST_TRAJECTORIES    the .pt file of this iteration's test; empty without one
    ROLLOUT_BASE_MODEL           the value of --model
    ROLLOUT_PREVIOUS_CHECKPOINT  the checkpoint that acted in this iteration; empty at first
    ROLLOUT_CHECKPOINT           where to write the new checkpoint. When the command ends with
                                 0, what is there is kept as checkpoints/iteration<N>, and is
                                 the model from then on. A command that was killed is run
                                 again, with nothing there.

Several machines:
  --num-nodes N            N ranks on a Ray cluster (`ray start` on each machine first)
  --rank-weights W,W,…     one whole number for each: its share of browsers and tasks
  --cluster ADDRESS        the cluster; default auto, the one of this machine; local: a Ray of
                           its own with N ranks on this machine

Exit codes: 0 done; 2 the configuration is wrong; 3 paused; 130 and 143 stopped
by Ctrl-C and SIGTERM; otherwise that of the phase that failed.

The shipped shop, played by the built-in oracle, with no key and no network:
  ./run.sh --save-path exp --data-path rollout/examples/web/tasks --model builtin/oracle \
    --iterations 2 --test-every 2 --update 'echo "learn from $ROLLOUT_TRAJECTORIES"' \
    --train env_config.train_tasks=shop.jsonl --train env_config.train_tasks_rollout_size=4 \
    --test env_config.test_tasks=shop.jsonl --test env_config.test_tasks_rollout_size=3 \
    sites=[shop] env_config.server_size=2
HELP
}

say() { printf 'run.sh: %s\n' "$*"; }
die() {
    local code=$1
    shift
    printf 'run.sh: %s\n' "$*" >&2
    exit "$code"
}

# ---- options ---------------------------------------------------------------------------------------------------------

SAVE='' DATA='' MODEL='' SERVER_URL='' SERVE_COMMAND='' UPDATE='' CLUSTER='' WEIGHTS=''
ITERATIONS=0 TEST_EVERY=1 PHASES=both SPLITS=both NODES=1 HOST=localhost PORT=8999 SERVE_TIMEOUT=1800 DRY_RUN=''
COMMON=() TRAIN=() TEST=()
SERVE_VLLM="exec vllm serve \"\$ROLLOUT_SERVE_MODEL\" --host \"\$ROLLOUT_SERVE_HOST\" --port \"\$ROLLOUT_SERVE_PORT\""

whole() { [[ $2 =~ ^[0-9]+$ ]] || die 2 "$1: expected a whole number, got '$2'"; }
one_of() {
    local name=$1 given=$2 known
    shift 2
    for known; do [[ $given != "$known" ]] || return 0; done
    die 2 "$name: expected one of $*, got '$given'"
}

while (($#)); do
    option=$1
    shift
    case $option in
    -h | --help) usage && exit 0 ;;
    --resume) continue ;;
    --dry-run) DRY_RUN=yes && continue ;;
    --serve) SERVE_COMMAND=$SERVE_VLLM && continue ;;
    --master | --worker) die 2 "$option: one command runs all ranks; leave it out, and give --num-nodes" ;;
    --*=*) set -- "${option%%=*}" "${option#*=}" "$@" && continue ;;
    --*)
        [[ $(usage) == *[\ \(]"$option"[\ \)]* ]] || die 2 "unknown option '$option'; see --help"
        (($#)) || die 2 "$option: expected a value; see --help"
        ;;
    *=*) COMMON+=("$option") && continue ;;
    *) die 2 "unknown argument '$option'; see --help" ;;
    esac
    value=$1
    shift
    case $option in
    --save-path | --log-path) SAVE=$value ;;
    --data-path) DATA=$value ;;
    --model) MODEL=$value ;;
    --server-url) SERVER_URL=$value ;;
    --serve-command) SERVE_COMMAND=$value ;;
    --serve-timeout) whole "$option" "$value" && SERVE_TIMEOUT=$value ;;
    --host) HOST=$value ;;
    --port) whole "$option" "$value" && PORT=$value ;;
    --update) UPDATE=$value ;;
    --iterations) whole "$option" "$value" && ITERATIONS=$value ;;
    --test-every | --eval-interval) whole "$option" "$value" && TEST_EVERY=$value ;;
    --rl-phase) one_of "$option" "$value" rollout update both && PHASES=$value ;;
    --rollout-split) one_of "$option" "$value" train-only eval-only both && SPLITS=$value ;;
    --num-nodes) whole "$option" "$value" && NODES=$value ;;
    --rank-weights) WEIGHTS=$value ;;
    --cluster) CLUSTER=$value ;;
    --train) TRAIN+=("$value") ;;
    --test) TEST+=("$value") ;;
    *) die 2 "unknown option '$option'; see --help" ;;
    esac
done

[[ -n $SAVE ]] || die 2 "--save-path: missing; expected the folder of the experiment; see --help"
[[ -n $DATA ]] || die 2 "--data-path: expected the folder with the task files; see --help"
if [[ -n $SERVE_COMMAND ]]; then
    [[ -n $MODEL ]] || die 2 "--serve: which model? Give --model"
    [[ -z $SERVER_URL ]] || die 2 "--server-url: names the address of a running server; leave it out with --serve"
    [[ $SERVE_COMMAND != "$SERVE_VLLM" ]] || command -v vllm >/dev/null ||
        die 2 "--serve: vLLM is not installed here (pip install vllm); or name a server with --server-url"
    SERVER_URL=http://$HOST:$PORT
fi
if [[ -n $WEIGHTS ]]; then
    [[ $WEIGHTS =~ ^[0-9]+(,[0-9]+)*$ ]] || die 2 "--rank-weights: expected whole numbers such as 2,1,1, got '$WEIGHTS'"
    commas=${WEIGHTS//[^,]/}
    if ((NODES == 1)); then NODES=$((${#commas} + 1)); fi
    ((NODES == ${#commas} + 1)) || die 2 "--rank-weights: expected $NODES weights, one for each node, got '$WEIGHTS'"
elif ((NODES > 1)); then
    WEIGHTS=$(printf ',1%.0s' $(seq "$NODES")) && WEIGHTS=${WEIGHTS#,}
fi
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P) || exit 2
if [[ -z ${ROLLOUT:-} ]]; then
    if [[ -x $HERE/.venv/bin/rollout ]]; then ROLLOUT=$HERE/.venv/bin/rollout; else ROLLOUT=rollout; fi
fi
command -v "$ROLLOUT" >/dev/null || die 2 "$ROLLOUT: not found; install the package, or set ROLLOUT to its command"

# ---- processes -------------------------------------------------------------------------------------------------------
# File 8 is the pipe to the guard, file 9 the lock of the experiment. The guard has both; children get neither.

CHILD='' SERVER='' SERVED='' STOPPED=0

guard() {
    trap '' INT TERM HUP
    local line group groups=' ' left
    while read -r line; do
        case $line in
        +*) groups+="${line#+} " ;;
        -*) groups=${groups/ ${line#-} / } ;;
        esac
    done
    for group in $groups; do kill -TERM -- "-$group" 2>/dev/null; done
    for ((left = 100; left > 0; left--)); do
        for group in $groups; do kill -0 -- "-$group" 2>/dev/null && sleep 0.2 && continue 2; done
        return
    done
    for group in $groups; do kill -KILL -- "-$group" 2>/dev/null; done
}

# Start a command in a process group of its own, which the guard knows before the command is there.
start() {
    set -m
    (
        printf '+%s\n' "$BASHPID" >&8
        exec "$@" </dev/null 8>&- 9>&-
    ) &
    set +m
}

# Wait until a process has ended, through signals to this one; returns its exit code.
wait_for() {
    local code=0
    while :; do
        wait "$1"
        code=$?
        kill -0 "$1" 2>/dev/null || return "$code"
    done
}

# What is left of a process group that has ended otherwise.
forget() {
    kill -TERM -- "-$1" 2>/dev/null
    printf -- '-%s\n' "$1" >&8
}

run_phase() {
    ((STOPPED == 0)) || exit "$STOPPED"
    start "$@"
    CHILD=$!
    local code=0
    wait_for "$CHILD" || code=$?
    forget "$CHILD"
    CHILD=''
    ((STOPPED == 0)) || exit "$STOPPED"
    return "$code"
}

stop_server() {
    [[ -n $SERVER ]] || return 0
    kill -TERM -- "-$SERVER" 2>/dev/null
    wait_for "$SERVER" 2>/dev/null
    forget "$SERVER"
    SERVER='' SERVED=''
}

on_signal() {
    STOPPED=$2
    # A phase is told, and takes its time to come to a point from which it resumes.
    [[ -z $CHILD ]] || kill "-$1" -- "-$CHILD" 2>/dev/null
}
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM

answers() {
    (
        exec 3<>"/dev/tcp/$HOST/$PORT" || exit 1
        printf 'GET /health HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n' "$HOST" "$PORT" >&3
        IFS= read -r -t 5 line <&3 && [[ $line == *' 200 '* ]]
    ) 2>/dev/null
}

# Serve a model, unless it is served already.
serve() {
    local model=$1 log=$SAVE/phases/server.log deadline=$((SECONDS + SERVE_TIMEOUT))
    [[ -n $SERVE_COMMAND && $SERVED != "$model" ]] || return 0
    stop_server
    ! answers || die 2 "--port $PORT: another server answers there; stop it, or name it with --server-url"
    say "serving $model at $SERVER_URL (log: $log)"
    export ROLLOUT_SERVE_MODEL=$model ROLLOUT_SERVE_HOST=$HOST ROLLOUT_SERVE_PORT=$PORT
    start bash -c "exec >>\"\$0\" 2>&1; $SERVE_COMMAND" "$log"
    SERVER=$! SERVED=$model
    until answers; do
        ((STOPPED == 0)) || exit "$STOPPED"
        kill -0 "$SERVER" 2>/dev/null || die 1 "the server ended before it was ready: $(tail -n 3 "$log")"
        ((SECONDS < deadline)) || die 1 "the server was not ready after $SERVE_TIMEOUT s; see $log"
        sleep 0.2
    done
}

# ---- phases ----------------------------------------------------------------------------------------------------------

# A value as Hydra reads it, whatever is in it.
quoted() { printf "'%s'" "${1//\'/\\\'}"; }

is_finished() { grep -q '"finished_at"' "$SAVE/$1_trajectories/iteration$2/iteration.json" 2>/dev/null; }

next_test() {
    local last=-1 name
    for name in "$SAVE"/test_trajectories/*iteration*; do
        [[ $name =~ iteration([0-9]+)(\.jsonl|\.parquet)?$ ]] || continue
        if ((BASH_REMATCH[1] > last)); then last=${BASH_REMATCH[1]}; fi
    done
    if ((last >= 0)) && [[ -d $SAVE/test_trajectories/iteration$last ]] && ! is_finished test "$last"; then
        echo "$last"
    else
        echo $((last + 1))
    fi
}

# The checkpoint that acts in an iteration: what the last update before it wrote.
checkpoint_before() {
    local number
    for ((number = $1 - 1; number >= 0; number--)); do
        [[ ! -e $SAVE/checkpoints/iteration$number ]] || { echo "checkpoints/iteration$number" && return; }
    done
}

roll_out() {
    local split=$1 number=$2 checkpoint=$3 code=0
    local words=(web --config-name "rollout_$split" "save_path=$(quoted "$SAVE")" "data_path=$(quoted "$DATA")")
    [[ -z $MODEL ]] || words+=("policy_config.base_model=$(quoted "$MODEL")")
    [[ -z $SERVER_URL ]] || words+=("env_config.vllm_server_url=$(quoted "$SERVER_URL")")
    [[ -z $checkpoint ]] || words+=("policy_config.checkpoint_path=$checkpoint")
    if ((NODES > 1)) || [[ -n $CLUSTER ]]; then
        words+=("cluster.address=$(quoted "${CLUSTER:-auto}")")
        [[ -z $WEIGHTS ]] || words+=("rank_weights=$(quoted "$WEIGHTS")")
        [[ $CLUSTER != local ]] || words+=("cluster.workers=$NODES")
    fi
    words+=("${COMMON[@]}")
    if [[ $split == train ]]; then words+=("${TRAIN[@]}"); else words+=("${TEST[@]}"); fi
    if [[ -n $DRY_RUN ]]; then
        "$ROLLOUT" "${words[@]}" --dry-run
        return
    fi
    serve "${checkpoint:+$SAVE/}${checkpoint:-$MODEL}"
    run_phase "$ROLLOUT" "${words[@]}" || code=$?
    case $code in
    0 | 1) is_finished "$split" "$number" || die "$((code ? code : 1))" "$split iteration $number did not finish" ;;
    *) exit "$code" ;;
    esac
    ((code == 0)) || say "some trajectories of $split iteration $number failed; the experiment goes on without them"
}

test_phase() {
    local mark=$SAVE/phases/iteration$1.test number
    # Which test belongs to this iteration is written down before it begins.
    [[ -s $mark ]] || { next_test >"$mark.partial" && mv "$mark.partial" "$mark"; }
    number=$(<"$mark")
    is_finished test "$number" || roll_out test "$number" "$2"
}

update_phase() {
    local number=$1 previous=$2 mark=$SAVE/phases/iteration$1.updated folder=$SAVE/train_trajectories code=0
    local checkpoint=$SAVE/checkpoints/iteration$number tested=''
    [[ ! -e $mark ]] || return 0
    # A checkpoint takes its name when it is whole: then only the mark is missing.
    if [[ ! -e $checkpoint ]]; then
        stop_server
        rm -rf -- "$checkpoint.partial"
        if [[ -s $SAVE/phases/iteration$number.test ]]; then
            tested=$SAVE/test_trajectories/test_trajectories.pt.iteration$(<"$SAVE/phases/iteration$number.test")
        fi
        say "update after iteration $number"
        export ROLLOUT_ITERATION=$number ROLLOUT_SAVE_PATH=$SAVE ROLLOUT_BASE_MODEL=$MODEL \
            ROLLOUT_TRAJECTORIES=$folder/train_trajectories.pt.iteration$number \
            ROLLOUT_TRAJECTORIES_JSONL=$folder/train_trajectories.iteration$number.jsonl \
            ROLLOUT_RUN_DIR=$folder/iteration$number ROLLOUT_TEST_TRAJECTORIES=$tested \
            ROLLOUT_PREVIOUS_CHECKPOINT=${previous:+$SAVE/$previous} ROLLOUT_CHECKPOINT=$checkpoint.partial
        run_phase bash -c "$UPDATE" || code=$?
        ((code == 0)) || die "$code" "the update after iteration $number ended with $code; the same command runs it again"
        if [[ -e $checkpoint.partial ]]; then
            mv -- "$checkpoint.partial" "$checkpoint"
        else
            say "the update wrote nothing to ROLLOUT_CHECKPOINT: the model stays as it is"
        fi
    fi
    date -u +%Y-%m-%dT%H:%M:%SZ >"$mark.partial" && mv "$mark.partial" "$mark"
}

if [[ -n $DRY_RUN ]]; then
    code=0
    [[ $SPLITS == eval-only ]] || roll_out train 0 '' || code=$?
    ((TEST_EVERY == 0)) || [[ $SPLITS == train-only ]] || roll_out test 0 '' || code=$?
    exit "$code"
fi
mkdir -p -- "$SAVE/phases" "$SAVE/checkpoints" || die 2 "--save-path: $SAVE cannot be used"
SAVE=$(cd "$SAVE" && pwd -P) || exit 2
exec 9>"$SAVE/phases/lock"
if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for what an earlier run.sh has started to end"
    flock -w 60 9 || die 2 "$SAVE: another run.sh works there"
fi
exec 8> >(guard)
trap stop_server EXIT

if [[ $SPLITS == eval-only ]]; then
    iteration=0
    while is_finished train "$iteration"; do iteration=$((iteration + 1)); done
    roll_out test "$(next_test)" "$(checkpoint_before "$iteration")"
    exit 0
fi
for ((iteration = 0; ITERATIONS == 0 || iteration < ITERATIONS; iteration++)); do
    checkpoint=$(checkpoint_before "$iteration")
    if [[ $PHASES != update ]]; then
        is_finished train "$iteration" || roll_out train "$iteration" "$checkpoint"
        if [[ $SPLITS == both ]] && ((TEST_EVERY && iteration % TEST_EVERY == 0)); then
            test_phase "$iteration" "$checkpoint"
        fi
    elif ! is_finished train "$iteration"; then
        break
    fi
    if [[ $PHASES != rollout && -n $UPDATE ]]; then update_phase "$iteration" "$checkpoint"; fi
done
say "done: $SAVE"
