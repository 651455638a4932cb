// What `stalloc fit` prints: the table and its sentences, and the same as JSON.
#include <cstdio>

#include "tools/fit.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

// "24 GiB", "1.5 GiB": no decimals that say nothing.
std::string ShortBytes(std::uint64_t bytes) {
  std::string text = HumanBytes(bytes);
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return text;
  const std::size_t unit = text.find(' ');
  std::size_t end = unit;
  while (end > dot && (text[end - 1] == '0' || text[end - 1] == '.')) --end;
  return text.erase(end, unit - end);
}

std::string Bytes(const std::optional<std::uint64_t>& bytes) { return bytes ? HumanBytes(*bytes) : "-"; }

double Fragmentation(const DeviceUse& use) {
  const std::uint64_t reserved = use.peak_reserved_bytes.value_or(use.peak_device_bytes);
  return reserved == 0 || !use.peak_live_bytes
             ? 0
             : 1 - static_cast<double>(*use.peak_live_bytes) / static_cast<double>(reserved);
}

std::string Place(const OutOfMemory& at) {
  std::string text = "in step " + std::to_string(at.step);
  if (!at.file.empty()) text += Format(", at %s:%d in %s", at.file.c_str(), at.line, at.function.c_str());
  return text;
}

// "; it tried to allocate 2.00 GiB", of the two forms of PyTorch's message; empty if it is neither.
std::string AskedFor(const std::string& message) {
  for (const char* start : {"Tried to allocate ", "Requested               : "}) {
    const std::size_t at = message.find(start);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + std::char_traits<char>::length(start);
    const std::size_t unit = message.find("iB", begin);
    if (unit != std::string::npos) return "; it tried to allocate " + message.substr(begin, unit + 2 - begin);
  }
  return "";
}

// The last column, at most 14 characters.
std::string Verdict(const FitRow& row, std::uint64_t limit) {
  const std::optional<bool> fits = row.Fits(limit);
  if (!fits) return "";
  if (*fits)
    return row.limited && row.limited->Worst() != nullptr && row.limited->Worst()->retries > 0 ? "yes, retrying"
                                                                                               : "yes";
  const FitRun& run = row.limited ? *row.limited : row.plenty;
  if (run.reports.out_of_memory && run.reports.out_of_memory->step > 0)
    return "no, step " + std::to_string(run.reports.out_of_memory->step);
  return run.RanOutOfMemory() ? "no" : "it failed";
}

const FitRow* Find(const FitResult& result, const std::string& allocator) {
  for (const FitRow& row : result.rows)
    if (row.plenty.allocator == allocator) return &row;
  return nullptr;
}

std::uint64_t Held(const FitRow& row) { return row.plenty.Worst() == nullptr ? 0 : row.plenty.Worst()->HeldBytes(); }

// Which allocator to use, in one or two sentences.
std::string Advice(const FitResult& result) {
  const FitRow* const stalloc = Find(result, "stalloc");
  if (stalloc == nullptr || stalloc->plenty.Worst() == nullptr || !stalloc->plenty.Succeeded()) return "";
  const FitRow* least_other = nullptr;  // that works, and fits where that is asked
  for (const FitRow& row : result.rows) {
    if (row.plenty.allocator == "stalloc" || !row.plenty.Succeeded() || !row.Fits(result.memory_bytes).value_or(true))
      continue;
    if (least_other == nullptr || Held(row) < Held(*least_other)) least_other = &row;
  }
  const std::string need = "it needs " + HumanBytes(Held(*stalloc)) + " with stalloc";
  if (result.memory_bytes != 0 && !stalloc->Fits(result.memory_bytes).value_or(false)) {
    const std::uint64_t live = stalloc->plenty.Worst()->peak_live_bytes.value_or(0);
    return live > result.memory_bytes
               ? "It fits under no allocator: " + HumanBytes(live) +
                     " are live at its peak. Smaller batches, shorter "
                     "sequences, recomputation of activations or sharding over more devices lower that."
               : "It does not fit with stalloc: " + need + ".";
  }
  if (least_other == nullptr) return "Use stalloc: only with it does the program fit; " + need + ".";
  const double saved = 1 - static_cast<double>(Held(*stalloc)) / static_cast<double>(Held(*least_other));
  if (saved < 0.01)
    return "Any allocator does: " + least_other->Title() + " holds " + HumanBytes(Held(*least_other)) + "; " + need +
           ".";
  return Format("Use stalloc: %s, %s less than the best of the others (%s).", need.c_str(),
                HumanBytes(Held(*least_other) - Held(*stalloc)).c_str(), least_other->Title().c_str());
}

void PrintRow(const FitRow& row, std::uint64_t limit) {
  const DeviceUse* const use = row.plenty.Worst();
  if (use == nullptr || !(row.plenty.Succeeded() || row.plenty.RanOutOfMemory())) {
    std::printf("  %-20s the program fails with it (exit code %d)\n", row.Title().c_str(), row.plenty.end.exit_code);
    return;
  }
  const std::string wasted = use->peak_live_bytes ? Format("%.2f %%", 100 * Fragmentation(*use)) : "-";
  std::printf("  %-20s%11s%11s%11s%9s  %s\n", row.Title().c_str(), Bytes(use->peak_live_bytes).c_str(),
              Bytes(use->peak_reserved_bytes).c_str(), HumanBytes(use->peak_device_bytes).c_str(), wasted.c_str(),
              Verdict(row, limit).c_str());
}

void PrintFailures(const FitResult& result) {
  for (const FitRow& row : result.rows) {
    const FitRun& run = row.limited ? *row.limited : row.plenty;
    if (run.Succeeded()) {
      if (const DeviceUse* use = run.Worst(); row.limited && use != nullptr && use->retries > 0)
        std::printf("%s fits only by giving back its cache and trying again, %s times: slower.\n", row.Title().c_str(),
                    Grouped(use->retries).c_str());
      continue;
    }
    if (!run.RanOutOfMemory()) {
      const std::size_t line = run.output.rfind('\n');
      std::printf("With %s the program fails by itself: %s\n", row.Title().c_str(),
                  run.output.substr(line == std::string::npos ? 0 : line + 1).c_str());
    } else if (run.reports.out_of_memory) {
      const OutOfMemory& error = *run.reports.out_of_memory;
      std::printf("%s runs out of memory %s%s.\n", row.Title().c_str(), Place(error).c_str(),
                  AskedFor(error.message).c_str());
    } else {
      std::printf("With %s the device refused memory and the program ended with exit code %d.\n", row.Title().c_str(),
                  run.end.exit_code);
    }
  }
}

std::string Machine(const FitResult& result) {
  const SimulatedMachine& machine = result.machine;
  std::string text = "a simulated " + (machine.device.empty() ? std::string("device") : machine.device);
  if (machine.devices > 1) text = std::to_string(machine.devices) + " of " + text;
  if (machine.world_size > 0) text += Format(", as rank %u of %u", machine.rank, machine.world_size);
  return text;
}

nlohmann::ordered_json Json(const std::optional<OutOfMemory>& at) {
  if (!at) return nullptr;
  nlohmann::ordered_json json;
  json["rank"] = at->rank;
  json["step"] = at->step;
  json["file"] = at->file;
  json["line"] = at->line;
  json["function"] = at->function;
  json["message"] = at->message;
  return json;
}

nlohmann::ordered_json Json(const FitRun& run) {
  nlohmann::ordered_json json;
  json["memory_bytes"] = run.memory_bytes;
  json["exit_code"] = run.end.exit_code;
  json["seconds"] = run.seconds;
  json["steps"] = run.reports.steps;
  json["backend"] = run.reports.backend;
  json["out_of_memory"] = Json(run.reports.out_of_memory);
  json["processes"] = nlohmann::ordered_json::array();
  for (const DeviceUse& use : run.reports.uses) {
    nlohmann::ordered_json entry;
    entry["process"] = use.process;
    entry["rank"] = use.rank;
    entry["device"] = use.device;
    entry["peak_live_bytes"] = use.peak_live_bytes ? nlohmann::ordered_json(*use.peak_live_bytes) : nullptr;
    entry["peak_reserved_bytes"] = use.peak_reserved_bytes ? nlohmann::ordered_json(*use.peak_reserved_bytes) : nullptr;
    entry["peak_device_bytes"] = use.peak_device_bytes;
    entry["fragmentation"] = Fragmentation(use);
    entry["retries"] = use.retries;
    json["processes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

void PrintFitText(const FitResult& result) {
  const FitReports& first = result.rows.front().plenty.reports;
  std::string command;
  for (const std::string& word : result.command) command += (command.empty() ? "" : " ") + word;
  std::printf("%s\n", command.c_str());
  std::printf("on %s", Machine(result).c_str());
  if (!first.torch.empty()) std::printf(", %s steps, PyTorch %s", Grouped(first.steps).c_str(), first.torch.c_str());
  std::printf("\n\n");
  const std::string fits = result.memory_bytes == 0 ? "" : "fits in " + ShortBytes(result.memory_bytes);
  std::printf("  %-20s%11s%11s%11s%9s  %s\n", "", "peak live", "reserved", "on device", "wasted", fits.c_str());
  for (const FitRow& row : result.rows) PrintRow(row, result.memory_bytes);
  std::printf("\n");
  if (first.uses.size() > 1)
    std::printf("The figures are those of the process and device that hold most (of %zu); --json has all.\n",
                first.uses.size());
  if (result.peak) std::printf("Live memory reaches its peak %s.\n", Place(*result.peak).c_str());
  PrintFailures(result);
  for (const std::string& note : result.notes) std::printf("%s\n", note.c_str());
  if (const std::string advice = Advice(result); !advice.empty()) std::printf("%s\n", advice.c_str());
  std::printf(
      "\nSimulated: kernels are not executed, so that losses, values and times mean nothing; requests for\n"
      "memory are the program's own. Not counted: what CUDA itself takes for each process (about 0.5 GiB).\n");
  for (const std::string& choice : first.choices) std::printf("  chosen: %s\n", choice.c_str());
  for (const std::string& missing : first.unsimulated) std::printf("  not simulated: %s\n", missing.c_str());
}

nlohmann::ordered_json FitJson(const FitResult& result) {
  const FitReports& first = result.rows.front().plenty.reports;
  nlohmann::ordered_json json;
  json["command"] = result.command;
  json["device"] = result.machine.device;
  json["devices"] = result.machine.devices;
  json["world_size"] = result.machine.world_size;
  json["rank"] = result.machine.rank;
  json["memory_bytes"] =
      result.memory_bytes == 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(result.memory_bytes);
  json["torch"] = first.torch;
  json["allocators"] = nlohmann::ordered_json::array();
  for (const FitRow& row : result.rows) {
    nlohmann::ordered_json entry;
    entry["allocator"] = row.plenty.allocator;
    entry["run"] = row.plenty.number;
    const std::optional<bool> fits = row.Fits(result.memory_bytes);
    entry["fits"] = fits ? nlohmann::ordered_json(*fits) : nlohmann::ordered_json(nullptr);
    if (const DeviceUse* use = row.plenty.Worst()) {
      entry["peak_live_bytes"] = use->peak_live_bytes ? nlohmann::ordered_json(*use->peak_live_bytes) : nullptr;
      entry["peak_reserved_bytes"] =
          use->peak_reserved_bytes ? nlohmann::ordered_json(*use->peak_reserved_bytes) : nullptr;
      entry["peak_device_bytes"] = use->peak_device_bytes;
      entry["fragmentation"] = Fragmentation(*use);
    }
    entry["with_plenty"] = Json(row.plenty);
    entry["in_memory"] = row.limited ? Json(*row.limited) : nlohmann::ordered_json(nullptr);
    json["allocators"].push_back(std::move(entry));
  }
  json["peak"] = Json(result.peak);
  json["chosen"] = first.choices;
  json["not_simulated"] = first.unsimulated;
  json["notes"] = result.notes;
  json["advice"] = Advice(result);
  return json;
}

}  // namespace stalloc::tools
