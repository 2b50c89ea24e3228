// A library in place of NCCL, for ranks that are threads of one process: communicators that do not block, and calls
// that wait for other ranks on the stream. It uses the runtime's cudaLaunchHostFunc, which the program that opens it
// must have.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::tests::host_gpu {
namespace {

// Bytes that one rank sends to another, until the receiver has copied them.
struct Parcel {
  const char* kind = "";  // a receive takes only what was sent for the same kind
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};

// The state that the ranks of a communicator share: each lists the bytes that it sends, in the memory of one process.
class World {
 public:
  explicit World(int ranks) : ranks_(ranks) {}

  int ranks() const { return ranks_; }
  bool complete() const {
    const std::scoped_lock lock(mutex_);
    return here_ == ranks_;
  }

  void come() {
    const std::scoped_lock lock(mutex_);
    ++here_;
  }

  // A rank's state; `left` becomes true when it aborts.
  struct Member {
    int rank = 0;
    bool left = false;
  };
  void leave(Member& member) {
    {
      const std::scoped_lock lock(mutex_);
      member.left = true;
    }
    changed_.notify_all();
  }

  // A rank sends and receives together with others, and returns when all data have arrived, or false if it has left
  // before. Parcels between two ranks are received in the order in which they were sent; one of another kind or size
  // ends the process.
  struct Transfer {
    const char* kind = "";
    int peer = 0;
    const void* from = nullptr;
    void* to = nullptr;  // nullptr for a send
    std::size_t bytes = 0;
  };
  bool all_to_all(Member& member, const std::vector<Transfer>& transfers) {
    std::unique_lock lock(mutex_);
    std::vector<std::pair<Ends, std::shared_ptr<Parcel>>> own;
    for (const Transfer& transfer : transfers) {
      if (transfer.to != nullptr) continue;
      const Ends ends{member.rank, transfer.peer};
      own.emplace_back(ends, std::make_shared<Parcel>(Parcel{transfer.kind, transfer.from, transfer.bytes, false}));
      under_way_[ends].push_back(own.back().second);
    }
    changed_.notify_all();
    for (const Transfer& transfer : transfers) {
      if (transfer.to == nullptr) continue;
      auto& arriving = under_way_[{transfer.peer, member.rank}];
      changed_.wait(lock, [&] { return member.left || !arriving.empty(); });
      if (member.left) break;
      take(*arriving.front(), transfer);
      arriving.front()->taken = true;
      arriving.pop_front();
      changed_.notify_all();
    }
    for (const auto& [ends, parcel] : own) {
      changed_.wait(lock, [&, p = parcel.get()] { return member.left || p->taken; });
      if (!parcel->taken) std::erase(under_way_[ends], parcel);  // the sender may use its memory again
    }
    return !member.left;
  }

 private:
  using Ends = std::pair<int, int>;  // from, to
  void take(const Parcel& parcel, const Transfer& transfer) const {
    if (std::strcmp(parcel.kind, transfer.kind) != 0 || parcel.bytes != transfer.bytes) {
      std::fprintf(stderr, "host NCCL: rank %d sent %zu bytes (%s), where %zu (%s) are received\n", transfer.peer,
                   parcel.bytes, parcel.kind, transfer.bytes, transfer.kind);
      std::abort();
    }
    if (parcel.bytes > 0) std::memcpy(transfer.to, parcel.data, parcel.bytes);
  }

  const int ranks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  std::map<Ends, std::deque<std::shared_ptr<Parcel>>> under_way_;
};

// A rank's end of a communicator. Work on a stream keeps it alive.
struct End {
  std::shared_ptr<World> world;
  World::Member member;
  int device = 0;
  cudaStream_t stream = nullptr;  // the stream of all its calls
  std::atomic<ncclResult_t> error = ncclSuccess;
};

struct Registry {
  std::mutex mutex;
  int last_id = 0;
  std::map<int, std::shared_ptr<World>> open;  // worlds that not all ranks have joined, by id
  std::set<std::shared_ptr<End>> ends;
};

Registry& registry() {
  static Registry registry;
  return registry;
}

ncclUniqueId next_id() {
  const std::scoped_lock lock(registry().mutex);
  const int number = ++registry().last_id;
  ncclUniqueId id{};
  std::memcpy(id.internal, &number, sizeof number);
  return id;
}

// Joins a communicator and returns before all ranks have joined.
std::shared_ptr<End> join(const ncclUniqueId& id, int ranks, int rank) {
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  const std::scoped_lock lock(registry().mutex);
  std::shared_ptr<World>& world = registry().open[number];
  if (world == nullptr) world = std::make_shared<World>(ranks);
  auto end = std::make_shared<End>();
  end->world = world;
  end->member.rank = rank;
  cudaGetDevice(&end->device);
  world->come();
  if (world->complete()) registry().open.erase(number);
  registry().ends.insert(end);
  return end;
}

void leave(const std::shared_ptr<End>& end) {
  {
    const std::scoped_lock lock(registry().mutex);
    registry().ends.erase(end);
  }
  end->world->leave(end->member);
}

// Makes communicators of the device report that another rank is lost.
void lose_peer_of(int device) {
  const std::scoped_lock lock(registry().mutex);
  for (const auto& end : registry().ends)
    if (end->device == device) end->error = ncclRemoteError;
}

using Bytes = std::vector<char>;

template <typename Stored, typename Sum, typename Load, typename Store>
void add(const std::vector<Bytes>& parts, void* out, Load load, Store store) {
  for (std::size_t at = 0; at < parts.front().size(); at += sizeof(Stored)) {
    Sum sum{};
    for (const Bytes& part : parts) {
      Stored stored;
      std::memcpy(&stored, part.data() + at, sizeof stored);
      sum += load(stored);
    }
    const Stored result = store(sum);
    std::memcpy(static_cast<char*>(out) + at, &result, sizeof result);
  }
}

// Returns 0 for an unknown type.
std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 0;
  }
}

// Sets out to the sum of the ranks' parts, added in FP32 in the order of ranks and rounded once; whole numbers are
// added as such.
void add_parts(ncclDataType_t type, const std::vector<Bytes>& parts, void* out) {
  const auto same = [](auto value) { return value; };
  if (type == ncclFloat32) add<float, float>(parts, out, same, same);
  if (type == ncclInt32) add<std::int32_t, std::int32_t>(parts, out, same, same);
  if (type == ncclBfloat16) add<std::uint16_t, float>(parts, out, real::cuda::bf16_to_float, real::cuda::float_to_bf16);
  if (type == ncclFloat16) add<std::uint16_t, float>(parts, out, real::cuda::fp16_to_float, real::cuda::float_to_fp16);
}

}  // namespace

}  // namespace plumbline::tests::host_gpu

struct ncclComm {
  std::shared_ptr<plumbline::tests::host_gpu::End> end;
};

namespace plumbline::tests::host_gpu {
namespace {

struct Call {
  std::shared_ptr<End> end;
  std::vector<World::Transfer> transfers;
  std::vector<std::function<void()>> afterwards;  // run on the received data
};

struct Group {
  int depth = 0;
  std::vector<Call> calls;
};

Group& group() {
  thread_local Group group;
  return group;
}

void run(void* data) {
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  if (call->end->world->all_to_all(call->end->member, call->transfers))
    for (const auto& make : call->afterwards) make();
}

// A group's calls on one communicator run together.
void launch(std::vector<Call> calls) {
  std::vector<std::unique_ptr<Call>> together;
  for (Call& call : calls) {
    Call* same = nullptr;
    for (const auto& known : together)
      if (known->end == call.end) same = known.get();
    if (same == nullptr) {
      together.push_back(std::make_unique<Call>(std::move(call)));
      continue;
    }
    same->transfers.insert(same->transfers.end(), call.transfers.begin(), call.transfers.end());
    same->afterwards.insert(same->afterwards.end(), call.afterwards.begin(), call.afterwards.end());
  }
  for (auto& call : together) {
    const cudaStream_t stream = call->end->stream;
    cudaLaunchHostFunc(stream, run, call.release());
  }
}

// As in NCCL, calls of communicators that do not block are in progress when they return.
ncclResult_t add(ncclComm_t communicator, cudaStream_t stream, std::vector<World::Transfer> transfers,
                 std::function<void()> make = {}) {
  End& end = *communicator->end;
  if (const ncclResult_t error = end.error; error != ncclSuccess) return error;
  if (!end.world->complete()) return ncclInvalidUsage;
  if (end.stream == nullptr) end.stream = stream;
  if (end.stream != stream) {
    std::fprintf(stderr, "host NCCL: a communicator is used on two streams\n");
    std::abort();
  }
  Call call{communicator->end, std::move(transfers), {}};
  if (make) call.afterwards.push_back(std::move(make));
  group().calls.push_back(std::move(call));
  if (group().depth == 0) launch(std::exchange(group().calls, {}));
  return ncclInProgress;
}

// Every rank sends `bytes` to each other, whose bytes start `stride` bytes after those of the rank before; `make` gets
// the ranks' parts in order.
ncclResult_t collective(const char* kind, ncclComm_t communicator, cudaStream_t stream, const void* from,
                        std::size_t stride, std::size_t bytes,
                        const std::function<void(const std::vector<Bytes>&)>& make) {
  if (bytes == 0) return ncclSuccess;
  const auto ranks = static_cast<std::size_t>(communicator->end->world->ranks());
  const auto parts = std::make_shared<std::vector<Bytes>>(ranks, Bytes(bytes));
  std::vector<World::Transfer> transfers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int peer = static_cast<int>(rank);
    transfers.push_back({kind, peer, static_cast<const char*>(from) + rank * stride, nullptr, bytes});
    transfers.push_back({kind, peer, nullptr, (*parts)[rank].data(), bytes});
  }
  return add(communicator, stream, std::move(transfers), [parts, make] { make(*parts); });
}

constexpr const char* message = "a message";

}  // namespace

}  // namespace plumbline::tests::host_gpu

namespace host_gpu = plumbline::tests::host_gpu;

extern "C" {

// For tests: communicators of the device fail as if another rank were lost.
void host_nccl_fail_device(int device) { host_gpu::lose_peer_of(device); }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = host_gpu::next_id();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *communicator = nullptr;
  if (config->blocking != 0) return ncclInvalidArgument;
  *communicator = new ncclComm{host_gpu::join(id, ranks, rank)};
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  host_gpu::leave(communicator->end);
  delete communicator;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t communicator) { return ncclCommAbort(communicator); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  *error = communicator->end->error;
  if (*error == ncclSuccess && !communicator->end->world->complete()) *error = ncclInProgress;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:
      return "an error";
  }
}

const char* ncclGetLastError(ncclComm_t /*communicator*/) { return ""; }

ncclResult_t ncclGroupStart() {
  ++host_gpu::group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (--host_gpu::group().depth > 0) return ncclSuccess;
  host_gpu::launch(std::exchange(host_gpu::group().calls, {}));
  return ncclInProgress;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return host_gpu::add(communicator, stream,
                       {{host_gpu::message, peer, from, nullptr, count * host_gpu::size_of(type)}});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return host_gpu::add(communicator, stream, {{host_gpu::message, peer, nullptr, to, count * host_gpu::size_of(type)}});
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  const auto gather = [to](const std::vector<host_gpu::Bytes>& parts) {
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      std::memcpy(static_cast<char*>(to) + rank * parts[rank].size(), parts[rank].data(), parts[rank].size());
  };
  return host_gpu::collective("an all-gather", communicator, stream, from, 0, count * host_gpu::size_of(type), gather);
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t /*sum*/,
                           ncclComm_t communicator, cudaStream_t stream) {
  const auto add = [to, type](const std::vector<host_gpu::Bytes>& parts) { host_gpu::add_parts(type, parts, to); };
  return host_gpu::collective("an all-reduce", communicator, stream, from, 0, count * host_gpu::size_of(type), add);
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t /*sum*/,
                               ncclComm_t communicator, cudaStream_t stream) {
  const auto add = [to, type](const std::vector<host_gpu::Bytes>& parts) { host_gpu::add_parts(type, parts, to); };
  const std::size_t bytes = count * host_gpu::size_of(type);
  return host_gpu::collective("a reduce-scatter", communicator, stream, from, bytes, bytes, add);
}

}  // extern "C"
