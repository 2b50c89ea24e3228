#include "cli/world.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "cli/data.h"
#include "cli/outputs.h"
#include "model/base/version.h"
#include "real/cuda/backend.h"
#include "real/host/comm/communicator.h"

namespace plumbline::cli {
namespace {

constexpr int no_device = 77;

}  // namespace

real::host::DeviceOptions World::device(real::host::DeviceOptions wanted) const {
  if (simulated.now == nullptr) return wanted;
  wanted.clock = real::host::ClockKind::simulated;
  wanted.simulated = simulated;
  wanted.threads = false;
  return wanted;
}

int World::report(const model::Error& error) const { return is_root ? cli::report(error) : code_of(error); }

model::Result<real::Bootstrap> job_of(const World& world) {
  auto job = real::read_bootstrap();
  if (!job || world.transport == nullptr) return job;
  job->rank = world.transport->rank();
  job->ranks = world.transport->ranks();
  return job;
}

model::Result<std::unique_ptr<real::ControlChannel>> channel_of(const real::Bootstrap& job, const World& world,
                                                                real::ChannelOptions options) {
  if (world.transport != nullptr) return real::host::make_control_channel(*world.transport);
  options.program = fmt::format("plumbline {} of revision {}", model::version, source_revision());
  options.log = [](const std::string& line) { fmt::print(stderr, "plumbline: {}\n", line); };
  return real::connect(job, options);
}

model::Result<int> look_for_gpus(real::ControlChannel& channel, int device) {
  const auto own = real::cuda::describe_gpu(device);
  const bool ready = own.presence == real::cuda::GpuPresence::ready;
  const auto all = TRY(channel.gather(ready ? "" : own.message));
  int code = own.presence == real::cuda::GpuPresence::not_built ? 2 : no_device;
  bool missing = false;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string& reason = all[rank];
    if (reason.empty()) continue;
    missing = true;
    fmt::print(stderr, "plumbline: {}{}\n", channel.ranks() > 1 ? fmt::format("rank {}: ", rank) : "", reason);
  }
  if (missing && own.presence == real::cuda::GpuPresence::not_built)
    fmt::print(stderr, "build it where the CUDA toolkit is: cmake -D PLUMBLINE_CUDA=ON\n");
  return std::stoi(TRY(channel.broadcast(missing ? std::to_string(code) : "0")));
}

}  // namespace plumbline::cli
