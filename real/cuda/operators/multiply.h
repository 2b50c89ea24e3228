// One product on a call's stream: cuBLASLt's where it has one, else our own.
#pragma once

#include "real/cuda/operators/call.h"
#include "real/cuda/operators/product_task.h"

namespace plumbline::real::cuda {

// Scratch memory of an operator made of products: first the scales, then the library's workspace.
struct ProductRoom {
  float* scales = nullptr;
  void* workspace = nullptr;
};
Status take_product_room(const Call& call, std::int64_t scale_floats, ProductRoom& room);

// Nothing where C is empty. A large product that the library refuses is a failure with its reason: our own kernel
// would compute it for seconds.
Status multiply(const Call& call, const ProductTask& task, const ProductRoom& room);

// A task as the call's attributes and tensors say, without its parts.
ProductTask task_of(const Call& call);

// Those of `count` that are this call's, where streams share an operator (Kernel::part).
struct Share {
  std::int64_t begin = 0, count = 0;
};
Share share_of(std::int64_t count, const Kernel& kernel);
// The same in rows: borders are multiples of 128, so that neither tiles of scales nor of the product are cut.
Share share_of_rows(std::int64_t rows, const Kernel& kernel);

}  // namespace plumbline::real::cuda
