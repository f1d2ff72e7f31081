"""The configuration: what the keys mean (`schema`) and how a file is read (`load`)."""

from rollout.config.load import load_config, load_registry
from rollout.config.schema import Config, Dataset

__all__ = ["Config", "Dataset", "load_config", "load_registry"]
