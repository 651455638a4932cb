#include "runtime/base/process_identity.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <string_view>

namespace stalloc::runtime {
namespace {

constexpr std::string_view kRankNames[] = {"RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

std::optional<int> RankNamed(std::string_view name, const char* const* block) noexcept {
  for (; block != nullptr && *block != nullptr; ++block) {
    std::string_view entry(*block);
    if (!entry.starts_with(name) || entry.size() <= name.size() || entry[name.size()] != '=') continue;
    entry.remove_prefix(name.size() + 1);
    int rank = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), rank);
    if (error == std::errc{} && end == entry.data() + entry.size() && rank >= 0) return rank;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> RankIn(const char* const* environ_block) noexcept {
  for (std::string_view name : kRankNames) {
    if (const std::optional<int> rank = RankNamed(name, environ_block)) return rank;
  }
  return std::nullopt;
}

ProcessIdentity ThisProcess() {
  char host[HOST_NAME_MAX + 1] = {};
  // A name that does not fit comes back cut off and perhaps unterminated; the last byte stays zero.
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return ProcessIdentity{.pid = ::getpid(), .host = host[0] != '\0' ? host : "localhost", .rank = RankIn(environ)};
}

}  // namespace stalloc::runtime
