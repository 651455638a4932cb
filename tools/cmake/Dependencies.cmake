# The libraries that the targets name. Header-only use of spdlog and fmt keeps libstalloc.so free of NEEDED entries.
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

# CUDA headers (types only: nothing is linked against CUDA). A toolkit of version 13 or later if there is one, otherwise
# the headers of the nvidia-cuda-* wheels, which tools/setup puts into build/cuda-headers.
find_package(CUDAToolkit 13.0 QUIET)
add_library(stalloc_cuda_headers INTERFACE)
if(CUDAToolkit_FOUND)
  set(STALLOC_CUDA_INCLUDE_DIRS ${CUDAToolkit_INCLUDE_DIRS})
else()
  file(GLOB_RECURSE stalloc_cuda_h ${PROJECT_SOURCE_DIR}/build/cuda-headers/*/cuda.h)
  if(NOT stalloc_cuda_h)
    message(FATAL_ERROR "No CUDA 13 headers: neither a toolkit nor the nvidia-cuda-* wheels were found. Run tools/setup.")
  endif()
  list(GET stalloc_cuda_h 0 stalloc_cuda_h)
  cmake_path(GET stalloc_cuda_h PARENT_PATH STALLOC_CUDA_INCLUDE_DIRS)
endif()
target_include_directories(stalloc_cuda_headers SYSTEM INTERFACE ${STALLOC_CUDA_INCLUDE_DIRS})

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(LIBUNWIND_INCLUDE_DIR libunwind.h REQUIRED)

find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
add_library(stalloc_log_headers INTERFACE)
target_compile_definitions(stalloc_log_headers INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
get_target_property(stalloc_spdlog_include spdlog::spdlog INTERFACE_INCLUDE_DIRECTORIES)
get_target_property(stalloc_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(stalloc_log_headers SYSTEM INTERFACE ${stalloc_spdlog_include} ${stalloc_fmt_include})

find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_STATIC_LIBRARY libzstd.a REQUIRED)
