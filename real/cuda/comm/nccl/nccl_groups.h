// The NCCL communicators of the groups that a rank belongs to, and a watcher thread. If a rank ends or the network
// fails, the watcher aborts all of them with a reason, so that no GPU waits forever.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "real/cuda/memory.h"
#include "real/cuda/status.h"
#include "real/cuda/vendor/nccl.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

class NcclGroups {
 public:
  // Connects all ranks; every rank calls it. It makes a communicator of all ranks to found others, and one for each of
  // `channels`.
  static Status open(const std::vector<std::string>& folders, ControlChannel& channel, int channels,
                     std::unique_ptr<NcclGroups>& groups);
  ~NcclGroups();
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;

  std::int32_t rank() const { return channel_.rank(); }
  const Nccl& library() const { return *nccl_; }
  ncclComm_t channel(int number) const { return channels_[static_cast<std::size_t>(number)]; }
  // Returns the communicator of these ranks for calls on `stream`, with at most `ctas` CTAs (0: NCCL chooses). The
  // first call makes it and waits for the other ranks.
  Status find(const std::vector<std::int32_t>& ranks, cudaStream_t stream, int ctas, ncclComm_t& communicator);
  // Makes NCCL calls as one group on one communicator; returns when they are enqueued.
  Status together(ncclComm_t communicator, const char* doing, const std::function<ncclResult_t(const Nccl&)>& calls);
  // Gathers `bytes` from each of these ranks, which include this one: all[ranks, bytes]. The host waits for all of
  // them.
  Status all_gather_on_host(const std::vector<std::int32_t>& ranks, const void* own, std::int64_t bytes, void* all);
  // Returns the failure that ended all communication, if any.
  Status alive();
  // A flag in host memory that kernels read: nonzero once communication has ended, so that they stop waiting.
  const std::int32_t* ended_flag() const { return ended_flag_.as<std::int32_t>(); }

 private:
  NcclGroups(std::unique_ptr<Nccl> nccl, ControlChannel& channel) : nccl_(std::move(nccl)), channel_(channel) {}
  Status make(const ncclUniqueId& id, std::int32_t ranks, std::int32_t position, int ctas, ncclComm_t& communicator);
  Status make_world(ncclComm_t& communicator);
  // Sends a new group's id from its first rank to the others; ranks outside of the group take no part.
  Status share_id(const std::vector<std::int32_t>& ranks, ncclUniqueId& id);
  // Waits until the work on this object's own stream has ended.
  Status finish(const char* doing);
  Status settle(ncclComm_t communicator, ncclResult_t result, const char* doing);
  void watch();
  void end(const std::string& reason);

  std::unique_ptr<Nccl> nccl_;
  ControlChannel& channel_;
  std::mutex mutex_;   // guards NCCL calls, none of which blocks
  std::string ended_;  // the reason; empty: communication goes on
  std::vector<ncclComm_t> all_;
  ncclComm_t founder_ = nullptr;
  std::vector<ncclComm_t> channels_;
  std::map<std::pair<std::vector<std::int32_t>, cudaStream_t>, ncclComm_t> found_;
  cudaStream_t stream_ = nullptr;
  DeviceMemory id_, gathered_;
  PinnedMemory ended_flag_;
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace plumbline::real::cuda
