"""plumbline predicts what training and serving a large model costs.

    import plumbline
    result = plumbline.simulate("deepseek-v3-2048xh800", parallelism__pipeline=8)

The functions are the verbs of the command `plumbline` and give the same figures.
"""

from ._errors import Error, InfeasibleError, InputError

try:
    from ._core import Estimate, data_folder, version
except ModuleNotFoundError as error:
    import sys

    raise ImportError(f"plumbline._core was not built for Python {sys.version_info.major}.{sys.version_info.minor}: "
                      "run the interpreter that it was built for, or build it again with "
                      "-D Python3_EXECUTABLE=...") from error

from ._answers import (Answer, Comparison, MemoryResult, PlanAnswer, Result, ServingResult, TraceComparison,
                       Validation)
from ._plans import Plan, load_plan
from ._verbs import Predictor, compare, memory, plan, serve, simulate, sweep, validate

__version__: str = version()

__all__ = ["Answer", "Comparison", "Error", "Estimate", "InfeasibleError", "InputError", "MemoryResult", "Plan",
           "PlanAnswer", "Predictor", "Result", "ServingResult", "TraceComparison", "Validation", "compare", "data_folder", "load_plan",
           "memory", "plan", "serve", "simulate", "sweep", "validate"]
