"""Puts the parts in place when the modules that they concern are imported."""

import importlib.abc
import importlib.util
import sys

from stalloc_simulated import kernels, libraries, ranks


def _before_torch():
    libraries.load()


def _after_torch(torch):
    from stalloc_simulated import report, steps, values

    if torch.version.cuda is None:  # a build for other devices has nothing to simulate
        return
    report.install()
    steps.install(torch)
    values.install(torch)
    if torch.distributed.is_available():
        ranks.install(torch.distributed.distributed_c10d)


# Module: (called before it is executed or None, called with it afterwards).
_HOOKS = {"torch": (_before_torch, _after_torch)}
_HOOKS.update({name: (None, after) for name, after in kernels.HOOKS.items()})


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, before, after):
        self._loader, self._before, self._after = loader, before, after

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # The module keeps its own loader: others look into it.
        module.__loader__ = module.__spec__.loader = self._loader
        if self._before is not None:
            self._before()
        self._loader.exec_module(module)
        self._after(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self._searching = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _HOOKS or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Loader(spec.loader, *_HOOKS[name])
        return spec


def install():
    """Called before the program's first line. Does nothing where torch has been imported already, nor in a process
    whose LD_PRELOAD does not name the simulated device: a program may start others without it."""
    if "torch" in sys.modules or libraries.folder() is None:
        return
    ranks.prepare_environment()
    kernels.prepare_environment()
    sys.meta_path.insert(0, _Finder())
