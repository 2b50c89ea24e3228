// A stage of a step on one rank, timed as the step runs it: its operators back to back on the compute stream, alone and
// beside exchanges of expert tokens; the exchanges alone and beside the operators. It needs a device whose streams run
// at the same time, and a communicator that knows the plan's ranks or stands in for them.
#pragma once

#include <cstddef>

#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/measure/runner.h"

namespace plumbline::real {

struct StageConditions {
  int sms = 1;                // of the device
  int communication_sms = 0;  // that an exchange holds
  // Computed before what is timed, so that clocks and power are those of training: power limits act within a tenth of
  // a second.
  double soak_s = 0.3;
};

// Times of operators count from the end of the one before, so that they hold the gaps between kernels and add up to the
// time of the stream; waits for the host to launch are left out. Operators count as beside an exchange where one ran
// nine tenths of their time, and exchanges likewise. Exchanges decide at the beginning who received how many tokens;
// collectives and copies to a host are not run. Sequence, device and communicator must outlive it.
RunnableWorkload stage_workload(const Sequence& sequence, Device& device, Communicator& communicator,
                                const StageConditions& conditions);

}  // namespace plumbline::real
