#include "real/cuda/operators/product_cache.h"

#include <map>
#include <tuple>

namespace plumbline::real::cuda {

namespace {

// One line per field of ProductShape.
auto key_of(const ProductShape& s) {
  return std::make_tuple(s.m, s.n, s.k, s.operand, s.result, s.x_k_contiguous, s.w_k_contiguous, s.accumulate,
                         s.fast_accumulation, s.tf32, s.bias, s.target_sms, s.alignment, s.x_scale, s.w_scale,
                         s.x_stride, s.w_stride, s.d_stride, s.batch, s.x_batch_stride, s.w_batch_stride,
                         s.d_batch_stride, s.routed);
}

// Shapes that routing decides may not end: with so many the cache begins anew.
constexpr std::size_t most_products = 4096;

}  // namespace

struct ProductCache::Entries {
  struct Entry {
    std::unique_ptr<Product> product;
    Status why;  // there is none
  };
  std::map<decltype(key_of({})), Entry> products;
};

ProductCache::ProductCache(const CublasLt& library) : library_(library), entries_(std::make_unique<Entries>()) {}
ProductCache::~ProductCache() = default;

Product* ProductCache::find(const ProductShape& shape, const ProductOperands& operands, Status& why) {
  auto& products = entries_->products;
  const auto key = key_of(shape);
  auto at = products.find(key);
  if (at == products.end()) {
    if (products.size() >= most_products) products.clear();
    at = products.emplace(key, Entries::Entry{std::make_unique<Product>(library_), {}}).first;
    at->second.why = at->second.product->prepare(shape, operands, product_workspace_bytes);
  }
  why = at->second.why;
  return why.ok() ? at->second.product.get() : nullptr;
}

bool ProductCache::has(const ProductShape& shape, const ProductOperands& operands, Status& why) {
  if (find(usual_shape(shape), operands, why) != nullptr) return true;
  return shape.routed != Routed::none && find(exact_shape(shape), operands, why) != nullptr;
}

Status ProductCache::run(const ProductShape& shape, const ProductOperands& operands, void* workspace,
                         cudaStream_t stream) {
  Status attempt;
  if (shape.routed != Routed::none) {
    if (Product* const usual = find(usual_shape(shape), operands, attempt)) {
      PLUMBLINE_TRY(usual->resize(shape));
      if ((attempt = usual->run(operands, workspace, stream)).ok()) return attempt;
    }
  }
  Product* const product = find(exact_shape(shape), operands, attempt);
  if (product == nullptr) return attempt;
  attempt = product->run(operands, workspace, stream);
  while (!attempt.ok() && product->try_next()) attempt = product->run(operands, workspace, stream);
  return attempt;
}

std::unique_ptr<ProductCache> make_product_cache(const CublasLt& library) {
  return std::make_unique<ProductCache>(library);
}

}  // namespace plumbline::real::cuda
