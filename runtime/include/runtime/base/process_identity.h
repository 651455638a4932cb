// Who this process is among those of one training job: pid, host and rank, as file names and log lines show them.
// Any thread; allocates only what it returns.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace stalloc::runtime {

struct ProcessIdentity {
  pid_t pid = 0;
  std::string host;
  std::optional<int> rank;  // as the launcher says: torchrun, Open MPI, MPICH's Hydra, Slurm
};

// The rank in an environment block (RANK, LOCAL_RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, in this order).
std::optional<int> RankIn(const char* const* environ_block) noexcept;

// This process, now.
ProcessIdentity ThisProcess();

}  // namespace stalloc::runtime
