// Asks the installed cuDNN for the graphs of attention on a GPU that this machine need not have. Without a GPU only an
// engine's acceptance can be tested. cuDNN needs a libcuda that loads, for which the toolkit's stub suffices.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "real/cuda/operators/cudnn/cudnn_graph.h"
#include "real/cuda/operators/cudnn/detail/attention_graph.h"
#include "real/cuda/vendor/library_search.h"

namespace plumbline::real::cuda {
namespace {

// The properties of an H100 SXM as cudaGetDeviceProperties returns them.
constexpr const char* h100 = R"({
  "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H100 80GB HBM3",
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
  "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
  "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "totalGlobalMem": 85028765696, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800})";

// The stub has the driver's library name inside: once loaded, it is found under that name.
bool has_libcuda() {
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr ||
         dlopen(PLUMBLINE_LIBCUDA_STUB, RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

class CudnnAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_libcuda()) GTEST_SKIP() << "there is no libcuda, nor the toolkit's stub";
    std::string error;
    cudnn_ = Cudnn::open(library_folders({}), error);
    if (!cudnn_) GTEST_SKIP() << error;
  }

  std::size_t engines(const AttentionShape& shape) {
    CudnnGraph graph(*cudnn_);
    shape.backward ? describe_backward(graph, shape) : describe_forward(graph, shape);
    const Status finished = graph.finish(nullptr);
    EXPECT_TRUE(finished.ok()) << finished.failure;
    EngineConfigs found;
    if (finished.ok()) why_ = find_engines(*cudnn_, graph, {nullptr, h100}, found);
    return found.size();
  }

  static AttentionShape causal(bool backward, std::int64_t query_key_dim) {
    return {backward, Format::bf16, 1, 4096, 16, 16, query_key_dim, 128};
  }

  std::unique_ptr<Cudnn> cudnn_;
  Status why_;
};

TEST_F(CudnnAttention, ForwardOfLatentAttentionHasAnEngine) {
  EXPECT_GE(engines(causal(false, 192)), 1u) << why_.failure;
}

TEST_F(CudnnAttention, BackwardOfLatentAttentionHasAnEngineFromVersion919On) {
  if (cudnn_->version() < 91900) GTEST_SKIP() << "cuDNN " << cudnn_->version();
  EXPECT_GE(engines(causal(true, 192)), 1u) << why_.failure;
}

TEST_F(CudnnAttention, EqualHeadDimensionsHaveEngines) {
  EXPECT_GE(engines(causal(false, 128)), 1u) << why_.failure;
  EXPECT_GE(engines(causal(true, 128)), 1u) << why_.failure;
}

TEST_F(CudnnAttention, Fp16HasEngines) {
  AttentionShape shape = causal(false, 128);
  shape.format = Format::fp16;
  EXPECT_GE(engines(shape), 1u) << why_.failure;
  shape.backward = true;
  EXPECT_GE(engines(shape), 1u) << why_.failure;
}

TEST_F(CudnnAttention, QueryHeadsMayShareKeyValueHeads) {
  AttentionShape shape = causal(false, 128);
  shape.key_value_heads = 4;
  EXPECT_GE(engines(shape), 1u) << why_.failure;
  shape.backward = true;
  EXPECT_GE(engines(shape), 1u) << why_.failure;
}

TEST_F(CudnnAttention, AGraphThatIsNoAttentionHasNone) {
  AttentionShape shape = causal(true, 192);
  shape.query_key_dim = 191;  // no multiple of 16 bytes
  EXPECT_EQ(engines(shape), 0u);
}

}  // namespace
}  // namespace plumbline::real::cuda
