// Norms over rows, and their gradients.
#pragma once

#include <cuda_runtime_api.h>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

struct NormForm {
  float epsilon = 1e-6f;
  bool centered = false;  // a layer norm: the mean is subtracted first
};

// Rows have at most widest_row columns (limits.h), else the result is cudaErrorInvalidValue. gamma, and beta if it has
// data, have an element per column of x.
cudaError_t norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, const TensorView& y,
                 const NormForm& form, cudaStream_t stream);

// Writes dx, adds to dgamma and, if it has data, dbeta; `scratch` has norm_grad_scratch bytes.
cudaError_t norm_grad(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& dx,
                      const TensorView& dgamma, const TensorView& dbeta, const NormForm& form, float* scratch, int sms,
                      cudaStream_t stream);
std::int64_t norm_grad_scratch(const TensorView& x, const NormForm& form, int sms);

}  // namespace plumbline::real::cuda
