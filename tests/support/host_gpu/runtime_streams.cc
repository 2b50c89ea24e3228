// The runtime's streams, events and graphs. No stream waits for the null stream; work on the null stream runs at once,
// on the calling thread.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/host_gpu/runtime.h"
#include "tests/support/host_gpu/stream.h"

struct CUstream_st {
  int device;
  std::shared_ptr<plumbline::tests::host_gpu::Stream> stream;
};

// Holds the work in the order in which it was captured.
struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<std::function<void()>>> nodes;
};

struct CUevent_st {
  std::shared_future<std::chrono::steady_clock::time_point> moment;  // of the last record; invalid without one
};

namespace plumbline::tests::host_gpu {
namespace {

class Streams {
 public:
  static Streams& all() {
    static Streams streams;
    return streams;
  }
  void add(int device, const std::shared_ptr<Stream>& stream) {
    const std::scoped_lock lock(mutex_);
    of_device_[device].push_back(stream);
  }
  void remove(int device, const std::shared_ptr<Stream>& stream) {
    const std::scoped_lock lock(mutex_);
    std::erase(of_device_[device], stream);
  }
  std::vector<std::shared_ptr<Stream>> of(int device) {
    const std::scoped_lock lock(mutex_);
    return of_device_[device];
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::shared_ptr<Stream>>> of_device_;
};

// The graph that the calling thread captures, and from which stream.
thread_local std::unique_ptr<CUgraph_st> capture;
thread_local cudaStream_t captured_stream = nullptr;

bool is_past(const decltype(CUevent_st::moment)& moment) {
  return !moment.valid() || moment.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  if (capture && stream == captured_stream) return capture->nodes.push_back(std::move(work));
  stream->stream->enqueue(std::move(work));
}

void synchronize_device(int device) {
  for (const auto& stream : Streams::all().of(device)) stream->synchronize();
}

}  // namespace plumbline::tests::host_gpu

using namespace plumbline::tests::host_gpu;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  if (flags != cudaStreamNonBlocking) return failed(cudaErrorInvalidValue);
  const int device = current_device();
  *stream = new CUstream_st{device, std::make_shared<Stream>(device)};
  Streams::all().add(device, (*stream)->stream);
  return cudaSuccess;
}

// All streams have one priority.
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int /*priority*/) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->stream->synchronize();
  Streams::all().remove(stream->device, stream->stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream != nullptr) stream->stream->synchronize();
  return cudaSuccess;
}

// A stream that is not ready has not failed: the last error is unchanged.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream == nullptr || stream->stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  enqueue(stream, [moment = event->moment] {
    if (moment.valid()) moment.wait();
  });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  enqueue(stream, [function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto promise = std::make_shared<std::promise<std::chrono::steady_clock::time_point>>();
  event->moment = promise->get_future().share();
  enqueue(stream, [promise] { promise->set_value(std::chrono::steady_clock::now()); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return is_past(event->moment) ? cudaSuccess : cudaErrorNotReady; }

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->moment.valid()) event->moment.wait();
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->moment.valid() || !to->moment.valid()) return failed(cudaErrorInvalidResourceHandle);
  if (!is_past(from->moment) || !is_past(to->moment)) return failed(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->moment.get() - from->moment.get()).count();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  enqueue(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
  if (capture || stream == nullptr) return failed(cudaErrorInvalidValue);
  capture = std::make_unique<CUgraph_st>();
  captured_stream = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!capture || stream != captured_stream) return failed(cudaErrorInvalidValue);
  *graph = capture.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long /*flags*/) {
  *executable = new CUgraphExec_st{std::make_shared<std::vector<std::function<void()>>>(graph->nodes)};
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t /*executable*/, cudaStream_t /*stream*/) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  enqueue(stream, [nodes = executable->nodes] {
    for (const auto& node : *nodes) node();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  synchronize_device(current_device());
  return cudaSuccess;
}

}  // extern "C"
