// Whether a Python program sends tensors to other processes by torch.multiprocessing, as far as its source shows it.
//
// A CUDA tensor goes from process to process by a legacy IPC handle wherever an object is sent: through a queue, a
// pipe, a manager, a pool's results, or as shared parameters. Whether a tensor lies on a GPU does not stand in the
// source, so a program that uses torch.multiprocessing and makes one of these is taken to send some. What does not
// count: mp.spawn and mp.Process alone, as for one rank a GPU; a context of the start method fork, whose children
// cannot use CUDA after their parent; the queues of threads and of asyncio; Python's own multiprocessing in a program
// that uses nothing of PyTorch's. Data loaders make their queues in PyTorch's own files, which nobody reads here.
//
// One thread; allocates.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "python_statements.h"

namespace stalloc::interpose {

// Something that a program's source says.
struct SourceSign {
  std::string what;   // as it is written there: reduce-overhead, mp.Queue
  std::string where;  // "train.py line 12", or "the command line"
};

class SharingSigns {
 public:
  // A file of the program, its imports apart. `own` tells the program's own modules from those that are installed: of
  // what another file hands on, nothing is known.
  void Add(const std::vector<PythonStatement>& statements, const std::vector<PythonImport>& imports,
           const std::string& path, const std::function<bool(const PythonImport&)>& own);

  // After any file: what is sent through, once the program is known to use torch.multiprocessing as well.
  std::optional<SourceSign> Found() const { return torch_ ? carrier_ : std::nullopt; }

 private:
  void Bind(const std::vector<PythonImport>& imports, const std::function<bool(const PythonImport&)>& own);
  void BindContexts(const PythonStatement& statement);
  // What the expression in front of a token's dot is: a module's full name, or empty if that cannot be seen.
  std::string OwnerOf(const PythonStatement& statement, std::size_t token) const;
  std::string MakerOf(const PythonStatement& statement, std::size_t token) const;
  void Search(const PythonStatement& statement, const std::string& path);

  // Of the file at hand.
  std::map<std::string, std::string, std::less<>> names_;     // what each imported name is; empty: not known
  std::map<std::string, std::string, std::less<>> contexts_;  // what is assigned from get_context
  bool all_names_ = false;                                    // from torch.multiprocessing import *

  bool torch_ = false;
  std::optional<SourceSign> carrier_;
};

}  // namespace stalloc::interpose
