// What CUDA 12's header declares otherwise than CUDA 13's. Files of this folder are in libcudart.so.12 only.
#pragma once

#include "runtime.h"
