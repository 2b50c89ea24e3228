#include "real/cuda/measure/detail/green_context.h"

#include <cuda.h>

#include <string>
#include <utility>

namespace plumbline::real::cuda {
namespace {

// The driver's functions, obtained through the runtime, because nothing links libcuda. Each number is the CUDA version
// that introduced the function.
struct Driver {
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuGetErrorString) error_string = nullptr;
  decltype(&::cuDeviceGetDevResource) device_resource = nullptr;
  decltype(&::cuDevSmResourceSplitByCount) split = nullptr;
  decltype(&::cuDevResourceGenerateDesc) describe = nullptr;
  decltype(&::cuGreenCtxCreate) create = nullptr;
  decltype(&::cuGreenCtxDestroy) destroy = nullptr;
  decltype(&::cuGreenCtxStreamCreate) stream_create = nullptr;

  template <typename Function>
  static Status load(Function*& function, const char* name, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
    function = reinterpret_cast<Function*>(found);
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess && found != nullptr) return {};
    cudaGetLastError();
    return {std::string("green contexts need a driver of CUDA 12.5 or newer: it has no ") + name};
  }

  Status open() {
    PLUMBLINE_TRY(load(device_get, "cuDeviceGet", 2000));
    PLUMBLINE_TRY(load(error_string, "cuGetErrorString", 6000));
    PLUMBLINE_TRY(load(device_resource, "cuDeviceGetDevResource", 12040));
    PLUMBLINE_TRY(load(split, "cuDevSmResourceSplitByCount", 12040));
    PLUMBLINE_TRY(load(describe, "cuDevResourceGenerateDesc", 12040));
    PLUMBLINE_TRY(load(create, "cuGreenCtxCreate", 12040));
    PLUMBLINE_TRY(load(destroy, "cuGreenCtxDestroy", 12040));
    return load(stream_create, "cuGreenCtxStreamCreate", 12050);
  }

  Status outcome(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    error_string(result, &text);
    return {std::string(doing) + " failed: " + (text == nullptr ? std::to_string(result) : std::string(text))};
  }
};

struct Side {
  CUdevResource resource{};
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
};

Status create(const Driver& driver, CUdevice device, int priority, Side& side) {
  CUdevResourceDesc description = nullptr;
  PLUMBLINE_TRY(driver.outcome(driver.describe(&description, &side.resource, 1), "cuDevResourceGenerateDesc"));
  PLUMBLINE_TRY(driver.outcome(driver.create(&side.context, description, device, CU_GREEN_CTX_DEFAULT_STREAM),
                               "cuGreenCtxCreate"));
  return driver.outcome(driver.stream_create(&side.stream, side.context, CU_STREAM_NON_BLOCKING, priority),
                        "cuGreenCtxStreamCreate");
}

// Returns one group of `sms` SMs and the rest: as the hardware schedules them together, else SM by SM.
Status divide(const Driver& driver, const CUdevResource& all, int sms, Side& small, Side& large, bool& coscheduled) {
  for (const unsigned flags : {0u, static_cast<unsigned>(CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)}) {
    coscheduled = flags == 0;
    unsigned groups = 1;
    const CUresult result = driver.split(&small.resource, &groups, &all, &large.resource, flags, sms);
    if (result == CUDA_SUCCESS && groups == 1 && static_cast<int>(small.resource.sm.smCount) == sms) return {};
    if (!coscheduled) PLUMBLINE_TRY(driver.outcome(result, "cuDevSmResourceSplitByCount"));
  }
  return {"the driver makes no group of " + std::to_string(sms) + " SMs, but one of " +
          std::to_string(small.resource.sm.smCount)};
}

}  // namespace

struct GreenContexts::State {
  Driver driver;
  Side small, large;
  bool coscheduled = false;

  ~State() {
    for (Side* side : {&small, &large}) {
      if (side->stream != nullptr) cudaStreamDestroy(side->stream);
      if (side->context != nullptr) driver.destroy(side->context);
    }
  }
};

GreenContexts::GreenContexts(std::unique_ptr<State> state) : state_(std::move(state)) {}

GreenContexts::~GreenContexts() = default;

Status GreenContexts::open(int ordinal, int sms, std::unique_ptr<GreenContexts>& contexts) {
  auto state = std::make_unique<State>();
  const Driver& driver = state->driver;
  PLUMBLINE_TRY(state->driver.open());
  int least = 0, greatest = 0;
  PLUMBLINE_TRY(outcome(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities"));
  CUdevice device = 0;
  PLUMBLINE_TRY(driver.outcome(driver.device_get(&device, ordinal), "cuDeviceGet"));
  CUdevResource all{};
  PLUMBLINE_TRY(
      driver.outcome(driver.device_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource"));
  if (sms < 1 || sms >= static_cast<int>(all.sm.smCount))
    return {"the device has " + std::to_string(all.sm.smCount) + " SMs, too few for this partition"};
  PLUMBLINE_TRY(divide(driver, all, sms, state->small, state->large, state->coscheduled));
  PLUMBLINE_TRY(create(driver, device, greatest, state->small));
  PLUMBLINE_TRY(create(driver, device, least, state->large));
  contexts.reset(new GreenContexts(std::move(state)));
  return {};
}

cudaStream_t GreenContexts::small() const { return state_->small.stream; }
cudaStream_t GreenContexts::large() const { return state_->large.stream; }
int GreenContexts::small_sms() const { return static_cast<int>(state_->small.resource.sm.smCount); }
int GreenContexts::large_sms() const { return static_cast<int>(state_->large.resource.sm.smCount); }
bool GreenContexts::coscheduled() const { return state_->coscheduled; }

}  // namespace plumbline::real::cuda
