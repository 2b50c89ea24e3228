// Small PyTorch-profiler traces, written event by event.
#pragma once

#include <string>

namespace plumbline::tests {

class KinetoTrace {
 public:
  // Times in microseconds, as they stand in the file.
  KinetoTrace& kernel(const std::string& name, int stream, const std::string& ts, const std::string& dur,
                      int correlation = 0, int device = 0) {
    return gpu("kernel", name, stream, ts, dur, device,
               "\"correlation\": " + std::to_string(correlation) +
                   ", \"registers per thread\": 168, \"shared memory\": 213000, \"grid\": [56, 2, 1], "
                   "\"block\": [384, 1, 1]");
  }
  KinetoTrace& copy(const std::string& name, int stream, const std::string& ts, const std::string& dur) {
    return gpu("gpu_memcpy", name, stream, ts, dur, 0, "\"bytes\": 4096");
  }
  KinetoTrace& launch(int correlation, const std::string& ts, int thread = 1) {
    return event("cuda_runtime", "cudaLaunchKernelExC", "77", std::to_string(thread), ts, "2",
                 "\"correlation\": " + std::to_string(correlation));
  }
  KinetoTrace& annotation(const std::string& name, const std::string& ts, const std::string& dur, int thread = 1) {
    return event("user_annotation", name, "77", std::to_string(thread), ts, dur, "\"External id\": 1");
  }
  KinetoTrace& gpu_annotation(const std::string& name, int stream, const std::string& ts, const std::string& dur) {
    return event("gpu_user_annotation", name, "0", std::to_string(stream), ts, dur, "");
  }
  KinetoTrace& other(const std::string& json) {
    events_ += (events_.empty() ? "\n  " : ",\n  ") + json;
    return *this;
  }

  std::string json() const {
    return R"({
"schemaVersion": 1,
"deviceProperties": [{"id": 0, "name": "NVIDIA H800", "totalGlobalMem": 84943110144, "numSms": 132}],
"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 64, "pg_config": [{"ranks": [0, 1]}]},
"displayTimeUnit": "ms", "baseTimeNanoseconds": 1727000000000000000,
"traceEvents": [)" +
           events_ + "\n],\n\"traceName\": \"somewhere/step \\\"1\\\".json\"\n}\n";
  }

 private:
  KinetoTrace& gpu(const std::string& category, const std::string& name, int stream, const std::string& ts,
                   const std::string& dur, int device, const std::string& more) {
    return event(category, name, std::to_string(device), std::to_string(stream), ts, dur,
                 "\"device\": " + std::to_string(device) + ", \"stream\": " + std::to_string(stream) + ", " + more);
  }
  KinetoTrace& event(const std::string& category, const std::string& name, const std::string& pid,
                     const std::string& tid, const std::string& ts, const std::string& dur, const std::string& more) {
    return other("{\"ph\": \"X\", \"cat\": \"" + category + "\", \"name\": \"" + name + "\", \"pid\": " + pid +
                 ", \"tid\": " + tid + ", \"ts\": " + ts + ", \"dur\": " + dur + ", \"args\": {" + more + "}}");
  }

  std::string events_;
};

}  // namespace plumbline::tests
