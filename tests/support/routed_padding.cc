#include "tests/support/routed_padding.h"

namespace plumbline::tests {
namespace {

bool holds_offsets(const model::Tensor& tensor) { return tensor.name == "expert_offsets"; }

bool has_rows(const model::Tensor& tensor, std::size_t dimension) {
  return dimension < tensor.shape.size() && tensor.shape[dimension].extent == model::Extent::rows;
}

double padding_of(const model::Tensor& tensor) { return tensor.type == model::DataType::int32 ? -1 : 0; }

}  // namespace

RoutedPadding::RoutedPadding(const Matrix& offsets, Index multiple) : offsets_(offsets), padded_offsets_(offsets) {
  for (Index e = 0; e + 1 < offsets.size(); ++e) {
    const auto count = static_cast<Index>(offsets(e + 1) - offsets(e));
    for (Index i = 0; i < count; ++i) place_.push_back(rows_ + i);
    rows_ += (count + multiple - 1) / multiple * multiple;
    padded_offsets_(e + 1) = static_cast<double>(rows_);
  }
}

Matrix RoutedPadding::padded(const model::Tensor& tensor, const Matrix& value) const {
  if (holds_offsets(tensor)) return padded_offsets_;
  if (has_rows(tensor, 0)) {
    Matrix result = Matrix::Constant(rows_, value.cols(), padding_of(tensor));
    result(place_, Eigen::all) = value;
    return result;
  }
  if (!has_rows(tensor, 1)) return value;
  Matrix result = Matrix::Constant(value.rows(), rows_, padding_of(tensor));
  result(Eigen::all, place_) = value;
  return result;
}

Matrix RoutedPadding::stripped(const model::Tensor& tensor, const Matrix& value) const {
  const bool rows = has_rows(tensor, 0), columns = has_rows(tensor, 1);
  if (!holds_offsets(tensor) && !rows && !columns) return value;
  if (rows ? value.rows() != rows_ : columns && value.cols() != rows_) return {};
  Matrix result = offsets_;
  if (rows) result = value(place_, Eigen::all);
  if (columns) result = value(Eigen::all, place_);
  const Matrix again = padded(tensor, result);
  return again.rows() == value.rows() && again.cols() == value.cols() && again == value ? result : Matrix();
}

}  // namespace plumbline::tests
