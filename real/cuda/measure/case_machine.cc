#include "real/cuda/measure/case_machine.h"

#include <array>
#include <utility>

#include "real/cuda/measure/case_runner.h"
#include "real/cuda/measure/collective_runner.h"
#include "real/cuda/measure/environment.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {

namespace {

using model::Result;

tl::unexpected<model::Error> infeasible(const Status& status) {
  return tl::unexpected(model::Error{model::ErrorKind::infeasible, status.failure});
}

class GpuCaseMachine final : public CaseMachine {
 public:
  explicit GpuCaseMachine(ControlChannel& channel) : collectives_(channel) {}

  Status open(const CaseMachineOptions& options) {
    PLUMBLINE_TRY(tools_.open(options.device, library_folders(options.library_folders)));
    return describe_environment(tools_, environment_);
  }

  std::string device() const override { return tools_.properties.name; }
  int sms() const override { return tools_.properties.multiProcessorCount; }
  std::string environment() const override { return environment_; }
  bool lost() const override { return context_is_lost(); }

  Result<std::unique_ptr<Runner>> prepare(const KernelCase& what, int samples) override {
    std::unique_ptr<CaseRunner> runner = runner_of(what, samples);
    if (const Status prepared = runner->prepare(); !prepared.ok()) return infeasible(prepared);
    return runner;
  }

 private:
  std::unique_ptr<CaseRunner> runner_of(const KernelCase& what, int samples) {
    using Make = std::unique_ptr<CaseRunner> (*)(const KernelCase&, Toolbox&, int);
    static constexpr std::array<std::pair<const char*, Make>, 5> makers = {{{"partition", make_partition_runner},
                                                                            {"copy", make_copy_runner},
                                                                            {"host_to_device", make_host_copy_runner},
                                                                            {"launch", make_launch_runner},
                                                                            {"graph", make_graph_runner}}};
    if (is_collective(what)) return collectives_.make_runner(what, tools_, samples);
    for (const auto& [op, make] : makers)
      if (what.op == op) return make(what, tools_, samples);
    return make_kernel_runner(what, tools_, samples);
  }

  Toolbox tools_;
  Collectives collectives_;
  std::string environment_;
};

}  // namespace

Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions& options, ControlChannel& channel) {
  auto machine = std::make_unique<GpuCaseMachine>(channel);
  if (const Status opened = machine->open(options); !opened.ok()) return infeasible(opened);
  return machine;
}

Result<std::string> list_libraries(const std::vector<std::string>& folders) {
  return describe_libraries(library_folders(folders));
}

}  // namespace plumbline::real::cuda
