// What the parts of the program `peers` share: two devices, a context and a stream of each, and what is done with them.
#pragma once

#include <cuda.h>
#include <simcuda/extensions.h>
#include <stdint.h>

#include "check.h"

enum { kPage = 2 << 20, kBytes = 3 * kPage };

extern CUcontext contexts[2];
extern CUstream streams[2];
extern int served;  // the requests must not reach the driver

void Use(int device);
CUdeviceptr Allocate(int device);
CUdeviceptr AllocateAsync(int device, size_t bytes);
// What a kernel of `device` that writes and reads the block comes to.
CUresult Touch(int device, CUdeviceptr block, size_t bytes);
void SetPoolAccess(int owner, int peer, CUmemAccess_flags flags);
// True if the block's first and last words, each copied by the device that the block is on, are the one that is wanted.
int Holds(int device, CUdeviceptr block, uint32_t wanted);

// peers_access.c
void EnableByContext(void);
void EnableByPool(void);
void Refuse(void);
// peers_copies.c
void CopyBetween(void);
void CopyWithTheHost(void);
void CopyWithHostAndAccess(void);
// peers_rows.c
void CopyRowsWithHost(CUdeviceptr block, CUstream stream);
// peers_between.c
void CopyRowsBetween(void);
void OnlyElsewhere(void);
void InOneCall(void);
// peers_arrays.c
void CopyArrays(void);
void CopyArrayRows(void);
// peers_streams.c
void StreamsOfOthers(void);
void FreedOnAnothersStream(void);
