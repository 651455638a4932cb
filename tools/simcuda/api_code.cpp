// Entry points of modules, libraries and kernels: see code.h. Images are not read; a function that is asked for is in
// it.
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <type_traits>

#include "call.h"
#include "simcuda/extensions.h"

namespace stalloc::simcuda {
namespace {

using ModulePtr = std::shared_ptr<CodeModule>;

CUmodule AsModule(CUlibrary library) { return reinterpret_cast<CUmodule>(library); }
CUfunction AsFunction(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

template <typename Handle>
CUresult Load(Call& call, Handle* handle, Context* context) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_shared<CodeModule>();
  module->context = context;
  module->handle = call.machine.code_modules.Add(module);
  *handle = reinterpret_cast<Handle>(module->handle);
  return CUDA_SUCCESS;
}

// What an image begins with: a fat binary or the compiler's wrapper of one, an ELF file, or the text of PTX.
bool IsImage(const void* image) {
  for (const std::string_view magic : {"\x50\xed\x55\xba", "\xb1\x43\x62\x46",
                                       "\x7f"
                                       "ELF"}) {
    if (std::memcmp(image, magic.data(), magic.size()) == 0) return true;
  }
  return std::strstr(static_cast<const char*>(image), ".version") != nullptr;
}

// `image` is the code itself.
template <typename Handle>
CUresult LoadImage(EntryPoint entry, Handle* handle, const void* image) {
  return Enter(entry, [&](Call& call) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!IsImage(image)) return CUDA_ERROR_INVALID_IMAGE;
    return Load(call, handle, std::is_same_v<Handle, CUmodule> ? call.context : nullptr);
  });
}

template <typename Handle>
CUresult LoadFile(EntryPoint entry, Handle* handle, const char* path) {
  return Enter(entry, [&](Call& call) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (access(path, R_OK) != 0) return CUDA_ERROR_FILE_NOT_FOUND;
    return Load(call, handle, std::is_same_v<Handle, CUmodule> ? call.context : nullptr);
  });
}

CUresult Unload(Call& call, CUmodule handle) {
  const ModulePtr module = call.machine.code_modules.Remove(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  UnloadModule(call.machine, *module);
  return CUDA_SUCCESS;
}

CUresult GetFunction(Call& call, CUfunction* function, CUmodule handle, const char* name) {
  const ModulePtr module = call.machine.code_modules.Find(handle);
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = FindFunction(call.machine, module, name)->handle;
  return CUDA_SUCCESS;
}

CUresult GetGlobal(Call& call, CUdeviceptr* address, std::size_t* size_bytes, CUmodule handle, const char* name) {
  const ModulePtr module = call.machine.code_modules.Find(handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return FindVariable(call.machine, *module, *call.context, name, address, size_bytes);
}

CUresult CountFunctions(Call& call, unsigned* count, CUmodule handle) {
  const ModulePtr module = call.machine.code_modules.Find(handle);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

// body(function) in an entry point that only needs one.
template <typename Body>
CUresult WithFunction(EntryPoint entry, CUfunction handle, Body&& body) {
  return Enter(entry, [&](Call& call) {
    const std::shared_ptr<Function> function = call.machine.functions.Find(handle);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(call, *function);
  });
}

CUresult GetName(EntryPoint entry, const char** name, CUfunction handle) {
  return WithFunction(entry, handle, [&](Call&, Function& function) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function.name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult GetAttribute(EntryPoint entry, int* value, CUfunction_attribute attribute, CUfunction handle) {
  return WithFunction(entry, handle, [&](Call& call, Function& function) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE
                            : GetFunctionAttribute(call.machine.card(), function, attribute, value);
  });
}

CUresult SetAttribute(EntryPoint entry, CUfunction handle, CUfunction_attribute attribute, int value) {
  return WithFunction(entry, handle, [&](Call& call, Function& function) {
    return SetFunctionAttribute(call.machine.card(), function, attribute, value);
  });
}

CUresult Nothing(EntryPoint entry, CUfunction handle) {
  return WithFunction(entry, handle, [](Call&, Function&) { return CUDA_SUCCESS; });
}

}  // namespace

// What the real driver reads off the image.
SIMCUDA_EXPORT CUresult simcudaDeclareVariable(CUlibrary library, const char* name, size_t size_bytes) {
  return Enter(EntryPoint::k_simcudaDeclareVariable, [&](Call& call) {
    const ModulePtr module = call.machine.code_modules.Find(AsModule(library));
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    module->variable_bytes[name] = size_bytes;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuModuleLoad(CUmodule* module, const char* path) {
  return LoadFile(SIMCUDA_ENTRY(cuModuleLoad), module, path);
}

SIMCUDA_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return LoadImage(SIMCUDA_ENTRY(cuModuleLoadData), module, image);
}

SIMCUDA_EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return LoadImage(SIMCUDA_ENTRY(cuModuleLoadDataEx), module, image);
}

SIMCUDA_EXPORT CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return LoadImage(SIMCUDA_ENTRY(cuModuleLoadFatBinary), module, image);
}

SIMCUDA_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return Enter(SIMCUDA_ENTRY(cuModuleUnload), [&](Call& call) { return Unload(call, module); });
}

SIMCUDA_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return Enter(SIMCUDA_ENTRY(cuModuleGetLoadingMode), [&](Call&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return Enter(SIMCUDA_ENTRY(cuModuleGetFunction),
               [&](Call& call) { return GetFunction(call, function, module, name); });
}

SIMCUDA_EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  return Enter(SIMCUDA_ENTRY(cuModuleGetFunctionCount),
               [&](Call& call) { return CountFunctions(call, count, module); });
}

SIMCUDA_EXPORT CUresult cuModuleGetGlobal(CUdeviceptr* address, std::size_t* size_bytes, CUmodule module,
                                          const char* name) {
  return Enter(SIMCUDA_ENTRY(cuModuleGetGlobal),
               [&](Call& call) { return GetGlobal(call, address, size_bytes, module, name); });
}

SIMCUDA_EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned,
                                          CUlibraryOption*, void**, unsigned) {
  return LoadImage(SIMCUDA_ENTRY(cuLibraryLoadData), library, image);
}

SIMCUDA_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option*, void**, unsigned,
                                              CUlibraryOption*, void**, unsigned) {
  return LoadFile(SIMCUDA_ENTRY(cuLibraryLoadFromFile), library, path);
}

SIMCUDA_EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  return Enter(SIMCUDA_ENTRY(cuLibraryUnload), [&](Call& call) { return Unload(call, AsModule(library)); });
}

SIMCUDA_EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetKernel), [&](Call& call) {
    return GetFunction(call, reinterpret_cast<CUfunction*>(kernel), AsModule(library), name);
  });
}

SIMCUDA_EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetKernelCount),
               [&](Call& call) { return CountFunctions(call, count, AsModule(library)); });
}

SIMCUDA_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return Enter(SIMCUDA_ENTRY(cuLibraryEnumerateKernels), [&](Call& call) {
    const ModulePtr module = call.machine.code_modules.Find(AsModule(library));
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const auto& [name, function] : module->functions) {
      if (count-- == 0) break;
      *kernels++ = reinterpret_cast<CUkernel>(function->handle);
    }
    return CUDA_SUCCESS;
  });
}

// A library is its own module.
SIMCUDA_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetModule), [&](Call& call) {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.code_modules.Find(AsModule(library)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *module = AsModule(library);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* size_bytes, CUlibrary library,
                                           const char* name) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetGlobal),
               [&](Call& call) { return GetGlobal(call, address, size_bytes, AsModule(library), name); });
}

// No image is known to have any.
SIMCUDA_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr*, std::size_t*, CUlibrary, const char*) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetManaged), [](Call&) { return CUDA_ERROR_NOT_FOUND; });
}

SIMCUDA_EXPORT CUresult cuLibraryGetUnifiedFunction(void**, CUlibrary, const char*) {
  return Enter(SIMCUDA_ENTRY(cuLibraryGetUnifiedFunction), [](Call&) { return CUDA_ERROR_NOT_FOUND; });
}

// One object stands for a kernel in every context.
SIMCUDA_EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return WithFunction(SIMCUDA_ENTRY(cuKernelGetFunction), AsFunction(kernel), [&](Call&, Function& found) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *function = found.handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return WithFunction(SIMCUDA_ENTRY(cuKernelGetLibrary), AsFunction(kernel), [&](Call&, Function& function) {
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *library = reinterpret_cast<CUlibrary>(function.module.lock()->handle);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  return WithFunction(SIMCUDA_ENTRY(cuFuncGetModule), function, [&](Call&, Function& found) {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *module = found.module.lock()->handle;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return GetAttribute(SIMCUDA_ENTRY(cuKernelGetAttribute), value, attribute, AsFunction(kernel));
}

SIMCUDA_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  return SetAttribute(SIMCUDA_ENTRY(cuKernelSetAttribute), AsFunction(kernel), attribute, value);
}

SIMCUDA_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return Nothing(SIMCUDA_ENTRY(cuKernelSetCacheConfig), AsFunction(kernel));
}

SIMCUDA_EXPORT CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return GetName(SIMCUDA_ENTRY(cuKernelGetName), name, AsFunction(kernel));
}

SIMCUDA_EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return GetAttribute(SIMCUDA_ENTRY(cuFuncGetAttribute), value, attribute, function);
}

SIMCUDA_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return SetAttribute(SIMCUDA_ENTRY(cuFuncSetAttribute), function, attribute, value);
}

SIMCUDA_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return Nothing(SIMCUDA_ENTRY(cuFuncSetCacheConfig), function);
}

SIMCUDA_EXPORT CUresult cuFuncGetName(const char** name, CUfunction function) {
  return GetName(SIMCUDA_ENTRY(cuFuncGetName), name, function);
}

SIMCUDA_EXPORT CUresult cuFuncLoad(CUfunction function) { return Nothing(SIMCUDA_ENTRY(cuFuncLoad), function); }

SIMCUDA_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return WithFunction(SIMCUDA_ENTRY(cuFuncIsLoaded), function, [&](Call&, Function&) {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
