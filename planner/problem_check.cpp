#include "planner/problem_check.h"

#include <bit>

namespace stalloc::planner {
namespace {

std::string Named(const char* kind, std::size_t index, const char* reason) {
  return std::string(kind) + " " + std::to_string(index) + ": " + reason;
}

std::optional<std::string> FindMalformedOrder(const Problem& problem) {
  if (problem.reusable.empty()) return std::nullopt;
  const std::size_t streams = problem.streams;
  if (problem.reusable.size() != problem.requests.size() * streams) {
    return "reusable has " + std::to_string(problem.reusable.size()) + " times for " +
           std::to_string(problem.requests.size()) + " requests and " + std::to_string(streams) + " streams";
  }
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    if (request.stream >= streams) return Named("request", i, "is on a stream that the problem does not have");
    for (std::size_t q = 0; q < streams; ++q) {
      const Time from = problem.reusable[i * streams + q];
      if (from < request.end) return Named("request", i, "is reusable before it ends");
      if (q == request.stream && from != request.end) {
        return Named("request", i, "is not reusable on its own stream when it ends");
      }
      Time length = 0;
      if (__builtin_sub_overflow(from, request.begin, &length)) return Named("request", i, "is reusable too late");
      if (problem.period > 0 && length > problem.period) {
        return Named("request", i, "is reusable only after it has come again");
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindMalformed(const Problem& problem) {
  if (!std::has_single_bit(problem.alignment_bytes)) return "alignment is not a power of two";
  if (problem.alignment_bytes > kMaxTotalBytes) return "alignment is too large";
  if (problem.period < 0) return "period is negative";
  const Bytes padding = problem.alignment_bytes - 1;
  Bytes total = 0;
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    if (request.size_bytes == 0) return Named("request", i, "size is zero");
    if (request.end <= request.begin) return Named("request", i, "ends before it begins");
    Time length = 0;
    if (__builtin_sub_overflow(request.end, request.begin, &length)) return Named("request", i, "lifetime is too long");
    if (problem.period > 0 && length > problem.period) return Named("request", i, "lives longer than the period");
    if (request.size_bytes > kMaxTotalBytes - padding) return Named("request", i, "size is too large");
    const Bytes padded = (request.size_bytes + padding) & ~padding;
    if (padded > kMaxTotalBytes - total) return Named("request", i, "sizes add up to more than 2^62 bytes");
    total += padded;
  }
  for (std::size_t i = 0; i < problem.fixed.size(); ++i) {
    const FixedBlock& block = problem.fixed[i];
    if (block.size_bytes == 0) return Named("fixed block", i, "size is zero");
    if (block.end <= block.begin) return Named("fixed block", i, "ends before it begins");
    if (block.offset > kMaxTotalBytes || block.size_bytes > kMaxTotalBytes - block.offset) {
      return Named("fixed block", i, "ends beyond 2^62 bytes");
    }
  }
  return FindMalformedOrder(problem);
}

}  // namespace stalloc::planner
