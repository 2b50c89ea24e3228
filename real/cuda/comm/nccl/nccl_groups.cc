#include "real/cuda/comm/nccl/nccl_groups.h"

#include <chrono>
#include <cstring>
#include <optional>

namespace plumbline::real::cuda {
namespace {

// Short enough to end a failed run soon, long enough to make the checks cheap.
constexpr std::chrono::milliseconds watch_interval{50};
constexpr std::chrono::minutes settle_limit{10};  // a first connection of thousands of ranks takes a minute or two

}  // namespace

Status NcclGroups::open(const std::vector<std::string>& folders, ControlChannel& channel, int channels,
                        std::unique_ptr<NcclGroups>& groups) {
  std::string error;
  std::unique_ptr<Nccl> nccl = Nccl::open(folders, error);
  if (nccl == nullptr) return {error};
  groups.reset(new NcclGroups(std::move(nccl), channel));
  PLUMBLINE_TRY(outcome(cudaStreamCreateWithFlags(&groups->stream_, cudaStreamNonBlocking), "making a stream"));
  PLUMBLINE_TRY(groups->id_.allocate(sizeof(ncclUniqueId)));
  PLUMBLINE_TRY(groups->ended_flag_.allocate(sizeof(std::int32_t)));
  *groups->ended_flag_.as<std::int32_t>() = 0;
  PLUMBLINE_TRY(groups->make_world(groups->founder_));
  for (int i = 0; i < channels; ++i) PLUMBLINE_TRY(groups->make_world(groups->channels_.emplace_back()));
  groups->watcher_ = std::thread([self = groups.get()] { self->watch(); });
  return {};
}

NcclGroups::~NcclGroups() {
  done_ = true;
  if (watcher_.joinable()) watcher_.join();
  end("the run is over");
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

// Shares an id over the control channel, so that every rank takes part.
Status NcclGroups::make_world(ncclComm_t& communicator) {
  ncclUniqueId id{};
  std::string bytes(sizeof id, '\0');
  if (channel_.rank() == 0) {
    PLUMBLINE_TRY(nccl_->outcome(nccl_->unique_id(&id), "making an id"));
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  const auto shared = channel_.broadcast(bytes);
  if (!shared) return {shared.error().message};
  if (shared->size() != sizeof id) return {"rank 0 sent no id of NCCL"};
  std::memcpy(&id, shared->data(), sizeof id);
  return make(id, channel_.ranks(), channel_.rank(), 0, communicator);
}

Status NcclGroups::make(const ncclUniqueId& id, std::int32_t ranks, std::int32_t position, int ctas,
                        ncclComm_t& communicator) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (ctas > 0) config.maxCTAs = ctas;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) return {ended_};
    result = nccl_->init(&communicator, ranks, id, position, &config);
    if (communicator != nullptr) all_.push_back(communicator);
  }
  return settle(communicator, result, "connecting ranks");
}

Status NcclGroups::settle(ncclComm_t communicator, ncclResult_t result, const char* doing) {
  const auto deadline = std::chrono::steady_clock::now() + settle_limit;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_.empty()) return {ended_};
      if (result == ncclInProgress) {
        ncclResult_t asked = nccl_->async_error(communicator, &result);
        if (asked != ncclSuccess) result = asked;
      }
      if (result != ncclInProgress) return nccl_->outcome(result, doing, communicator);
    }
    if (const std::optional<std::string> failure = channel_.failure()) {
      end(*failure);  // before the next call finds an incomplete communicator
      return {*failure};
    }
    if (std::chrono::steady_clock::now() > deadline)
      return {std::string(doing) + " failed: another rank did not join within ten minutes"};
    std::this_thread::yield();
  }
}

Status NcclGroups::share_id(const std::vector<std::int32_t>& ranks, ncclUniqueId& id) {
  const bool first = ranks.front() == channel_.rank();
  if (first) {
    PLUMBLINE_TRY(nccl_->outcome(nccl_->unique_id(&id), "making an id"));
    PLUMBLINE_TRY(
        outcome(cudaMemcpyAsync(id_.as<char>(), &id, sizeof id, cudaMemcpyHostToDevice, stream_), "copying an id"));
  }
  PLUMBLINE_TRY(together(founder_, "founding a group", [&](const Nccl& nccl) {
    if (!first) return nccl.receive(id_.as<char>(), sizeof id, ncclChar, ranks.front(), founder_, stream_);
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      const ncclResult_t result = nccl.send(id_.as<char>(), sizeof id, ncclChar, ranks[i], founder_, stream_);
      if (result != ncclSuccess && result != ncclInProgress) return result;
    }
    return ncclSuccess;
  }));
  if (!first)
    PLUMBLINE_TRY(
        outcome(cudaMemcpyAsync(&id, id_.as<char>(), sizeof id, cudaMemcpyDeviceToHost, stream_), "copying an id"));
  return finish("founding a group");
}

Status NcclGroups::finish(const char* doing) {
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    if (state != cudaErrorNotReady) return outcome(state, doing);
    PLUMBLINE_TRY(alive());
    std::this_thread::yield();
  }
}

Status NcclGroups::all_gather_on_host(const std::vector<std::int32_t>& ranks, const void* own, std::int64_t bytes,
                                      void* all) {
  const auto size = static_cast<std::size_t>(bytes), count = ranks.size();
  ncclComm_t communicator = nullptr;
  PLUMBLINE_TRY(find(ranks, stream_, 0, communicator));
  const auto needed = static_cast<std::int64_t>(size * (count + 1));
  if (gathered_.bytes() < needed) PLUMBLINE_TRY(gathered_.allocate(needed));
  auto* mine = gathered_.as<char>();
  char* theirs = mine + size;
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(mine, own, size, cudaMemcpyHostToDevice, stream_), "sending to other ranks"));
  PLUMBLINE_TRY(together(communicator, "sending to other ranks", [&](const Nccl& nccl) {
    return nccl.all_gather(mine, theirs, size, ncclUint8, communicator, stream_);
  }));
  // A copy into pageable memory may wait for the stream, so it is made only after the stream's work has ended.
  PLUMBLINE_TRY(finish("sending to other ranks"));
  PLUMBLINE_TRY(outcome(cudaMemcpyAsync(all, theirs, size * count, cudaMemcpyDeviceToHost, stream_),
                        "receiving from other ranks"));
  return finish("receiving from other ranks");
}

Status NcclGroups::find(const std::vector<std::int32_t>& ranks, cudaStream_t stream, int ctas,
                        ncclComm_t& communicator) {
  const auto [entry, fresh] = found_.try_emplace({ranks, stream}, nullptr);
  if (fresh) {
    ncclUniqueId id{};
    PLUMBLINE_TRY(share_id(ranks, id));
    std::int32_t position = 0;
    while (ranks[static_cast<std::size_t>(position)] != channel_.rank()) ++position;
    PLUMBLINE_TRY(make(id, static_cast<std::int32_t>(ranks.size()), position, ctas, entry->second));
  }
  communicator = entry->second;
  return {};
}

Status NcclGroups::together(ncclComm_t communicator, const char* doing,
                            const std::function<ncclResult_t(const Nccl&)>& calls) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) return {ended_};
    result = nccl_->group_start();
    if (result == ncclSuccess) result = calls(*nccl_);
    const ncclResult_t grouped = nccl_->group_end();
    if (result == ncclSuccess || result == ncclInProgress) result = grouped;
  }
  return settle(communicator, result, doing);
}

Status NcclGroups::alive() {
  const std::lock_guard lock(mutex_);
  return {ended_};
}

void NcclGroups::watch() {
  while (!done_) {
    std::this_thread::sleep_for(watch_interval);
    if (const std::optional<std::string> failure = channel_.failure()) return end(*failure);
    Status status;
    {
      const std::lock_guard lock(mutex_);
      for (const ncclComm_t communicator : all_) {
        ncclResult_t result = ncclSuccess;
        nccl_->async_error(communicator, &result);
        if (status.ok()) status = nccl_->outcome(result, "communication", communicator);
      }
    }
    if (status.ok()) continue;
    channel_.abort(status.failure);
    return end(status.failure);
  }
}

// Kernels that wait for other ranks return after the flag is set.
void NcclGroups::end(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!ended_.empty()) return;
  ended_ = reason;
  if (auto* flag = ended_flag_.as<std::int32_t>()) *static_cast<volatile std::int32_t*>(flag) = 1;
  for (const ncclComm_t communicator : all_) nccl_->abort(communicator);
  all_.clear();
}

}  // namespace plumbline::real::cuda
