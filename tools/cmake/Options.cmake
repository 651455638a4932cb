# stalloc_options: what every target of the project is compiled with.
add_library(stalloc_options INTERFACE)
target_compile_options(stalloc_options INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wcast-align -Wundef
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
# The distribution's static libraries may hold link-time code beside their own, which only the compiler that made them
# can read: take their own.
target_link_options(stalloc_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fno-lto>)

if(STALLOC_SANITIZE)
  target_compile_options(stalloc_options INTERFACE -fsanitize=${STALLOC_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(stalloc_options INTERFACE -fsanitize=${STALLOC_SANITIZE})
endif()

find_program(STALLOC_CCACHE ccache)
if(STALLOC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${STALLOC_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STALLOC_CCACHE})
endif()
