#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t no_axis = -1;
constexpr std::int64_t memory_alignment = 16;  // bytes: of every tensor in memory

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

CudnnDescriptor::CudnnDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type) : cudnn_(cudnn) {
  status_ = cudnn_.outcome(cudnn_.descriptor_create(type, &descriptor_), "creating a descriptor of cuDNN");
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) cudnn_.descriptor_destroy(descriptor_);
}

void CudnnDescriptor::set_array(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                                std::int64_t count, const void* values) {
  if (!status_.ok()) return;
  status_ = cudnn_.outcome(cudnn_.set(descriptor_, attribute, type, count, values),
                           ("setting attribute " + std::to_string(attribute) + " of cuDNN").c_str());
}

Status CudnnDescriptor::finalize() {
  if (status_.ok()) status_ = cudnn_.outcome(cudnn_.finalize(descriptor_), "finishing a descriptor of cuDNN");
  return status_;
}

Extents dense_strides(const Extents& shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

CudnnDescriptor& CudnnGraph::add(cudnnBackendDescriptorType_t type) {
  held_.push_back(std::make_unique<CudnnDescriptor>(cudnn_, type));
  return *held_.back();
}

CudnnGraph::Tensor CudnnGraph::finalize(CudnnDescriptor& descriptor) {
  if (status_.ok()) status_ = descriptor.finalize();
  return descriptor.get();
}

void CudnnGraph::operation(CudnnDescriptor& descriptor) { operations_.push_back(finalize(descriptor)); }

// Ids of tensors without memory are negative, so that they differ from all others.
CudnnGraph::Tensor CudnnGraph::tensor(const CudnnTensor& t) {
  CudnnDescriptor& d = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const bool within = t.id == 0;
  const std::int64_t id = within ? -static_cast<std::int64_t>(held_.size()) : t.id;
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, t.type);
  d.set_array(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.shape.data());
  d.set_array(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.strides.data());
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, memory_alignment);
  d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, within);
  d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, t.by_value);
  if (t.reordered)
    d.set(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_F16x16);
  return finalize(d);
}

CudnnGraph::Tensor CudnnGraph::inner(const Extents& shape, cudnnDataType_t type) {
  return tensor({shape, dense_strides(shape), type, 0, false, false});
}

CudnnGraph::Tensor CudnnGraph::number(std::int64_t id) {
  return tensor({{1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, id, true, false});
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision, std::int64_t axis,
                           const std::array<Tensor, 4>& x_b_t_y) {
  CudnnDescriptor& what = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  if (axis != no_axis) what.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  const Tensor described = finalize(what);
  CudnnDescriptor& d = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  d.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, described);
  constexpr cudnnBackendAttributeName_t places[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_YDESC};
  for (std::size_t i = 0; i < x_b_t_y.size(); ++i)
    if (x_b_t_y[i] != nullptr) d.set_descriptor(places[i], x_b_t_y[i]);
  operation(d);
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
  pointwise(mode, CUDNN_DATA_FLOAT, no_axis, {x, b, nullptr, y});
}

void CudnnGraph::index(Tensor x, std::int64_t axis, Tensor y) {
  pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, {x, nullptr, nullptr, y});
}

void CudnnGraph::at_least(Tensor x, Tensor b, Tensor y) {
  pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, no_axis, {x, b, nullptr, y});
}

void CudnnGraph::select(Tensor x, Tensor other, Tensor chosen, Tensor y) {
  pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, no_axis, {x, other, chosen, y});
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor c) {
  CudnnDescriptor& what = add(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  what.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  const Tensor described = finalize(what);
  CudnnDescriptor& d = add(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  d.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, described);
  d.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  d.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  d.set_descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
  operation(d);
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  CudnnDescriptor& what = add(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  what.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
  what.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  const Tensor described = finalize(what);
  CudnnDescriptor& d = add(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  d.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, described);
  d.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
  d.set_descriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
  operation(d);
}

void CudnnGraph::reshape(Tensor x, Tensor y) {
  CudnnDescriptor& d = add(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  d.set_descriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
  d.set_descriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
  operation(d);
}

Status CudnnGraph::finish(cudnnHandle_t handle) {
  if (!status_.ok()) return status_;
  graph_ = std::make_unique<CudnnDescriptor>(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->set_array(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    static_cast<std::int64_t>(operations_.size()), operations_.data());
  if (handle != nullptr) graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  return graph_->finalize();
}

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
