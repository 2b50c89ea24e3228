// A library in place of NCCL, for ranks that are threads of one process: communicators that do not block, and calls
// that wait for other ranks on the stream. It uses the runtime's cudaLaunchHostFunc, which the program that opens it
// must have.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/host_gpu/nccl/communicators.h"
#include "tests/support/host_gpu/nccl/sums.h"

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
