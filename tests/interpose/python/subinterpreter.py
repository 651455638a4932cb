"""The first extension module is imported in a subinterpreter, then one in the main one."""
import sys

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

number = interpreters.create()
interpreters.run_string(number, "import sys\ntry:\n    import _ctypes\nexcept ImportError:\n    pass\n"
                                "print('_stalloc' in sys.modules)")  # fmt: skip
sys.stdout.flush()
import _ctypes  # noqa: E402,F401

print("_stalloc" in sys.modules)
