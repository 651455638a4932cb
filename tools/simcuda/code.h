// Code: modules, libraries and the functions in them. Nothing of it is executed: a launch takes time and touches no
// memory. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "cuda_driver.h"

namespace stalloc::simcuda {

struct Card;
struct Context;
struct Machine;

struct CodeModule;

// A kernel of a library or a function of a module. What a program asks about it is what a kernel of moderate size has:
// 32 registers, no static shared memory.
struct Function {
  std::string name;
  std::weak_ptr<CodeModule> module;
  CUfunction handle = nullptr;
  int registers = 32;
  int static_shared_bytes = 0;
  int max_dynamic_shared_bytes = 48 << 10;  // raised by cuFuncSetAttribute
  std::map<int, int> attributes;            // others that were set
};

// A CUmodule or a CUlibrary. A variable has memory of its own in each context from when it is first asked for.
struct CodeModule {
  Context* context = nullptr;  // of a module; null: a library, which belongs to all
  CUmodule handle = nullptr;
  std::unordered_map<std::string, std::shared_ptr<Function>> functions;
  std::unordered_map<std::string, std::uint64_t> variable_bytes;
  std::map<std::pair<const Context*, std::string>, CUdeviceptr> variables;
};

// The function of that name, made when it is first asked for.
std::shared_ptr<Function> FindFunction(Machine& machine, const std::shared_ptr<CodeModule>& module, const char* name);
CUresult FindVariable(Machine& machine, CodeModule& module, Context& context, const char* name, CUdeviceptr* address,
                      std::size_t* size_bytes);
// Its functions, and its variables where `machine`'s contexts still have them, are gone.
void UnloadModule(Machine& machine, CodeModule& module);

// A context that ends takes its modules and the memory of variables with it.
void ForgetCode(Machine& machine, const Context& context);

CUresult GetFunctionAttribute(const Card& card, const Function& function, CUfunction_attribute attribute, int* value);
CUresult SetFunctionAttribute(const Card& card, Function& function, CUfunction_attribute attribute, int value);

// Blocks of `function` that a multiprocessor holds at once.
int BlocksPerMultiprocessor(const Card& card, const Function& function, int threads_per_block,
                            std::size_t dynamic_shared_bytes);

}  // namespace stalloc::simcuda
