// NCCL's communicators of the groups that a rank belongs to, and what watches over them: a rank that ends, or an error
// of the network, ends all of them with a reason instead of leaving the GPU to wait.
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
  // Every rank calls it: communicators of all ranks are made, one to found others, and one for each of `ways`.
  static Status open(const std::vector<std::string>& folders, ControlChannel& channel, int channels,
                     std::unique_ptr<NcclGroups>& groups);
  ~NcclGroups();
  NcclGroups(const NcclGroups&) = delete;
  NcclGroups& operator=(const NcclGroups&) = delete;

  std::int32_t rank() const { return channel_.rank(); }
  const Nccl& library() const { return *nccl_; }
  ncclComm_t channel(int number) const { return channels_[static_cast<std::size_t>(number)]; }
  // The communicator of these ranks for calls on `stream`, with at most `ctas` blocks (0: NCCL chooses). The first call
  // of all of them makes it: they wait for each other.
  Status find(const std::vector<std::int32_t>& ranks, cudaStream_t stream, int ctas, ncclComm_t& communicator);
  // Calls of NCCL that belong together, on one communicator; returns when they are enqueued.
  Status together(ncclComm_t communicator, const char* doing, const std::function<ncclResult_t(const Nccl&)>& calls);
  // Tells these ranks, of which this is one, `bytes` of each: all[ranks, bytes]. The host waits for all of them.
  Status all_gather_on_host(const std::vector<std::int32_t>& ranks, const void* own, std::int64_t bytes, void* all);
  // Why nothing may be waited for any more.
  Status alive();
  // In host memory that kernels read: nonzero from when nothing may be waited for any more.
  const std::int32_t* ended_flag() const { return ended_flag_.as<std::int32_t>(); }

 private:
  NcclGroups(std::unique_ptr<Nccl> nccl, ControlChannel& channel) : nccl_(std::move(nccl)), channel_(channel) {}
  Status make(const ncclUniqueId& id, std::int32_t ranks, std::int32_t position, int ctas, ncclComm_t& communicator);
  Status make_world(ncclComm_t& communicator);
  // A group's id goes from its first rank to its others alone: ranks outside of it do not know that it is made.
  Status share_id(const std::vector<std::int32_t>& ranks, ncclUniqueId& id);
  // Returns when what stands on the own stream has happened.
  Status finish(const char* doing);
  Status settle(ncclComm_t communicator, ncclResult_t result, const char* doing);
  void watch();
  void end(const std::string& reason);

  std::unique_ptr<Nccl> nccl_;
  ControlChannel& channel_;
  std::mutex mutex_;   // of NCCL's calls, none of which waits
  std::string ended_;  // why; empty: it has not
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
