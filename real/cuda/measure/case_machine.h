// This process's GPU as a machine that measures kernel cases, free of CUDA headers. Every build has it; a build without
// CUDA returns an error that names what is missing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "real/measure/kernel_case/case_machine.h"

namespace plumbline::real::cuda {

struct CaseMachineOptions {
  int device = 0;                            // CUDA's ordinal
  std::vector<std::string> library_folders;  // searched before the default folders
};

// `channel` connects the ranks that measure collectives; it must outlive the machine. A missing library fails the cases
// that need it. Infeasible if no device answers.
model::Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions& options,
                                                              ControlChannel& channel);

// Lists one line per known library: its file and version, or where it was searched for. It needs no device. Infeasible
// in a build without a GPU backend.
model::Result<std::string> list_libraries(const std::vector<std::string>& folders);

}  // namespace plumbline::real::cuda
