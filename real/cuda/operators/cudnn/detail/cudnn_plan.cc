#include "real/cuda/operators/cudnn/detail/cudnn_plan.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::size_t most_engines = 8;  // limit of the request: more than the library has for attention

// Describes the device to the heuristics if there is no handle. The descriptor must outlive them.
std::unique_ptr<CudnnDescriptor> described_device(const Cudnn& cudnn, const std::string& json) {
  auto device = std::make_unique<CudnnDescriptor>(cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device->set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                    json.c_str());
  return device;
}

Status ask(const Cudnn& cudnn, const CudnnGraph& graph, const CudnnTarget& target, cudnnBackendHeurMode_t mode,
           EngineConfigs& found) {
  CudnnDescriptor heuristics(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::unique_ptr<CudnnDescriptor> device;
  if (target.handle == nullptr) {
    device = described_device(cudnn, target.device);
    PLUMBLINE_TRY(device->finalize());
    heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device->get());
  }
  PLUMBLINE_TRY(heuristics.finalize());
  EngineConfigs configs;
  std::vector<cudnnBackendDescriptor_t> descriptors;
  for (std::size_t i = 0; i < most_engines; ++i) {
    configs.push_back(std::make_unique<CudnnDescriptor>(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    descriptors.push_back(configs.back()->get());
  }
  std::int64_t count = 0;
  PLUMBLINE_TRY(cudnn.outcome(cudnn.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        static_cast<std::int64_t>(most_engines), &count, descriptors.data()),
                              "asking cuDNN for engines"));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count) && i < most_engines; ++i)
    found.push_back(std::move(configs[i]));
  return {};
}

}  // namespace

Status find_engines(const Cudnn& cudnn, const CudnnGraph& graph, const CudnnTarget& target, EngineConfigs& found) {
  Status status;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    status = ask(cudnn, graph, target, mode, found);
    if (!found.empty()) return {};
  }
  return status.ok() ? Status{"cuDNN has no engine for it"} : status;
}

Status CudnnPlan::take(CudnnDescriptor& config, cudnnHandle_t handle) {
  auto plan = std::make_unique<CudnnDescriptor>(cudnn_, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
  plan->set_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.get());
  PLUMBLINE_TRY(plan->finalize());
  std::int64_t count = 0;
  PLUMBLINE_TRY(cudnn_.outcome(
      cudnn_.get(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &workspace_bytes_),
      "asking cuDNN for a plan's workspace"));
  plan_ = std::move(plan);
  return {};
}

Status CudnnPlan::build(const CudnnTarget& target) {
  PLUMBLINE_TRY(graph_.finish(target.handle));
  PLUMBLINE_TRY(find_engines(cudnn_, graph_, target, engines_));
  Status status;
  for (const auto& config : engines_) {
    status = take(*config, target.handle);
    if (status.ok()) return {};
  }
  return status;
}

Status CudnnPlan::run(cudnnHandle_t handle, const std::vector<std::pair<std::int64_t, void*>>& tensors,
                      void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> addresses;
  for (const auto& [id, address] : tensors) {
    ids.push_back(id);
    addresses.push_back(address);
  }
  CudnnDescriptor pack(cudnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<std::int64_t>(ids.size());
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  PLUMBLINE_TRY(pack.finalize());
  return cudnn_.outcome(cudnn_.execute(handle, plan_->get(), pack.get()), "running a plan of cuDNN");
}

}  // namespace plumbline::real::cuda
