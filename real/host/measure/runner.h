// Executes workloads on devices of the host and takes their times: what is run here runs as it does in a step, by the
// same streams, clocks, pools and operators.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "model/base/error.h"
#include "real/host/comm/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "real/measure/runner.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

// Devices are shared by the workloads that need the same.
class Machines {
 public:
  // transport: of this process's rank, where ranks are processes; nullptr: they are threads of this process.
  Machines(const DeviceOptions& device, Transport* transport) : base_(device), transport_(transport) {}

  HostDevice& device(int cores);

  // Ranks of a group that live in this process, one core each.
  struct Ranks {
    std::int32_t first = 0;  // of these; the others follow
    std::vector<std::unique_ptr<HostDevice>> devices;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::unique_ptr<Communicator>> communicators;  // of the above

    model::Result<void> synchronize();
    // Seconds from when the last rank began what has the label to when all had ended it. Forgets all records.
    double take_seconds(std::uint32_t label);
  };
  Ranks& ranks(std::int64_t count);

 private:
  DeviceOptions options(int cores) const {
    DeviceOptions options = base_;
    options.compute_cores = cores;
    return options;
  }

  DeviceOptions base_;
  Transport* transport_;
  std::map<int, std::unique_ptr<HostDevice>> devices_;
  std::map<std::int64_t, std::unique_ptr<Ranks>> ranks_;
};

inline constexpr std::size_t buffer_sets = 3;

// Machines and workload must outlive the runner. Fails (infeasible) where the host cannot compute an operator.
model::Result<std::unique_ptr<Runner>> make_runner(const Workload& workload, Machines& machines);

std::unique_ptr<Runner> make_sequence_runner(const Sequence& sequence, HostDevice& device);
std::unique_ptr<Runner> make_launch_runner(HostDevice& device);
std::unique_ptr<Runner> make_message_runner(const MessageWorkload& message, Machines::Ranks& ranks);
std::unique_ptr<Runner> make_collective_runner(const CollectiveWorkload& collective, Machines::Ranks& ranks);
std::unique_ptr<Runner> make_group_runner(const GroupWorkload& group, Machines::Ranks& ranks);

// Bytes of the buffers of a workload.
double buffer_bytes(const Workload& workload);

}  // namespace plumbline::real::host
