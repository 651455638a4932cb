// `stalloc doctor`: the library, the driver, and the routes between a program and CUDA.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/child_process.h"
#include "tools/doctor.h"
#include "tools/environment.h"
#include "tools/preload.h"
#include "tools/temporary_folder.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// The environment of a child that is examined: the user's, but for stalloc's own settings and the library.
std::vector<std::string> PlainEnvironment() {
  std::vector<std::string> environment = CurrentEnvironment();
  RemoveVariables(&environment, "STALLOC_");
  return environment;
}

std::vector<std::string> PreloadedEnvironment(const fs::path& library) {
  std::vector<std::string> environment = PlainEnvironment();
  SetVariable(&environment, "LD_PRELOAD", PrependPreload(library, Variable("LD_PRELOAD")));
  return environment;
}

ChildOutput Probe(const std::string& route, const std::vector<std::string>& environment) {
  return CaptureChild({fs::read_symlink("/proc/self/exe").string(), "doctor", "--probe", route}, environment);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

// Requests that the library says it has served. The file is its statistics.
std::uint64_t ServedRequests(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json statistics = nlohmann::json::parse(file, nullptr, false);
  if (statistics.is_discarded() || !statistics.contains("total")) return 0;
  const nlohmann::json& total = statistics.at("total");
  return total.value("planned_requests", std::uint64_t{0}) + total.value("online_requests", std::uint64_t{0});
}

Finding ExamineRoute(const std::string& route, const fs::path& library) {
  const TemporaryFolder folder;
  std::vector<std::string> environment = PreloadedEnvironment(library);
  SetVariable(&environment, "STALLOC_STATS", folder.Path("stats.json"));
  SetVariable(&environment, "STALLOC_PLAN_CACHE", "off");
  const ChildOutput child = Probe(route, environment);
  if (child.exit_code != 0) {
    return {Level::kProblem, route, "fails: " + FirstLine(child.errors),
            "see whether nvidia-smi and a CUDA program run without stalloc; if they do, this is a fault of stalloc"};
  }
  if (ServedRequests(folder.Path("stats.json")) == 0) {
    const std::string said = FirstLine(child.errors);
    return {Level::kProblem, route, "works, but is not served" + (said.empty() ? "" : ": " + said),
            "STALLOC_LOG=info before a program of yours says more; another preload or a profiler may stand in between"};
  }
  return {Level::kOk, route, "served", ""};
}

}  // namespace

Findings ExamineLibrary(const fs::path& library) {
  const ChildOutput child = CaptureChild({"true"}, PreloadedEnvironment(library));
  if (!child.started)
    return {{Level::kNote, "library", library.string() + ", not tried: no `true` on the search path",
             "nothing need be done, or put coreutils on PATH to have it tried"}};
  if (child.exit_code != 0 || !child.errors.empty() || !child.output.empty()) {
    return {{Level::kProblem, "library", library.string() + " disturbs a program: " + FirstLine(child.errors),
             "build or install it on this system (tools/setup, cmake --build --preset release), or name the right one "
             "with --library"}};
  }
  return {{Level::kOk, "library", library.string() + " loads", ""}};
}

Findings ExamineDriver() {
  const ChildOutput child = Probe(kDescribeDriver, PlainEnvironment());
  if (child.exit_code != 0) {
    return {{Level::kProblem, "driver", "no usable CUDA driver: " + FirstLine(child.errors),
             "install NVIDIA's driver, or give the container the GPU (docker run --gpus=all); without one, "
             "tools/quickstart shows stalloc on a simulated device"}};
  }
  const nlohmann::json driver = nlohmann::json::parse(child.output);
  const int version = driver.at("version");
  Findings findings{{Level::kOk, "driver", Format("for CUDA %d.%d", version / 1000, version % 1000 / 10), ""}};
  if (driver.at("devices").empty()) {
    findings.push_back({Level::kProblem, "device", "none",
                        "see whether nvidia-smi -L lists one, and whether CUDA_VISIBLE_DEVICES hides it"});
  }
  int ordinal = 0;
  for (const nlohmann::json& device : driver.at("devices")) {
    const bool servable = device.at("virtual_memory");
    findings.push_back(
        {servable ? Level::kOk : Level::kProblem, Format("device %d", ordinal++),
         device.at("name").get<std::string>() + ", " + HumanBytes(device.at("memory_bytes")) +
             (servable ? "" : ": without virtual memory management, cannot be served"),
         servable ? "" : "use another GPU (CUDA_VISIBLE_DEVICES); in a virtual machine, pass it through whole"});
  }
  return findings;
}

Findings ExamineRoutes(const fs::path& library) {
  Findings findings{ExamineRoute("dlsym", library), ExamineRoute("cuGetProcAddress", library)};
  // Most programs bring a runtime of their own: where none is on the search path there is nothing to try.
  Finding runtime = ExamineRoute("libcudart", library);
  if (runtime.level == Level::kProblem && runtime.text.ends_with("cannot be loaded")) {
    runtime = {Level::kNote, "libcudart", "none on the search path, not tried",
               "nothing need be done: PyTorch and most programs bring their own"};
  }
  findings.push_back(runtime);
  return findings;
}

}  // namespace stalloc::tools
