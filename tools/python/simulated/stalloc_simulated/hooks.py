"""Puts the parts in place when the modules that they concern are imported."""

import importlib.abc
import importlib.util
import sys


def _before_torch():
    from stalloc_simulated import libraries

    libraries.load()


def _after_torch():
    import torch

    from stalloc_simulated import ranks, report, steps, values

    report.install()
    steps.install(torch)
    values.install(torch)
    if torch.distributed.is_available():
        ranks.install(torch.distributed.distributed_c10d)


# Module: (called before it is executed, called after).
_HOOKS = {"torch": (_before_torch, _after_torch)}


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
        if self._after is not None:
            self._after()


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
        before, after = _HOOKS[name]
        spec.loader = _Loader(spec.loader, before, after)
        return spec


def install():
    from stalloc_simulated import ranks

    ranks.prepare_environment()
    if "torch" not in sys.modules:
        sys.meta_path.insert(0, _Finder())
