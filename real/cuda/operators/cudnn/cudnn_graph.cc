#include "real/cuda/operators/cudnn/cudnn_graph.h"

namespace plumbline::real::cuda {
namespace {

constexpr std::int64_t no_axis = -1;
constexpr std::int64_t memory_alignment = 16;  // bytes: of every tensor in memory

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

}  // namespace plumbline::real::cuda
