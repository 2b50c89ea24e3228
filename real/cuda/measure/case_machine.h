// The GPU of this process as a machine that measures kernel cases. For who knows nothing of CUDA: every build has it,
// and says what it lacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "real/measure/kernel_case/case_machine.h"

namespace plumbline::real::cuda {

struct CaseMachineOptions {
  int device = 0;                            // CUDA's number of it
  std::vector<std::string> library_folders;  // looked into before the usual places
};

// `channel` joins the ranks that measure collectives; it outlives the machine. Libraries that are missing fail the
// cases that need them. Infeasible: no device that answers.
model::Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions& options,
                                                              ControlChannel& channel);

// One line per known library: its file and version, or where it was looked for. Needs no device. Infeasible: a build
// without a GPU backend.
model::Result<std::string> list_libraries(const std::vector<std::string>& folders);

}  // namespace plumbline::real::cuda
