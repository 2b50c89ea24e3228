#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

CublasLt::~CublasLt() {
  if (handle != nullptr) destroy(handle);
}

std::unique_ptr<CublasLt> CublasLt::open(const std::vector<std::string>& folders, std::string& error) {
  auto lt = std::make_unique<CublasLt>();
  lt->library = Library::open(known_library("cuBLASLt"), folders, error);
  if (!lt->library) return nullptr;
#define LOAD(member, name) lt->library->load(lt->member, #name, error);
  PLUMBLINE_CUBLASLT_FUNCTIONS(LOAD)
#undef LOAD
  if (!error.empty()) return nullptr;
  if (const Status created = lt->outcome(lt->create(&lt->handle), "cublasLtCreate"); !created.ok()) {
    error = created.failure;
    lt->handle = nullptr;
    return nullptr;
  }
  return lt;
}

Status CublasLt::outcome(cublasStatus_t status, const char* doing) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return {std::string(doing) + " failed: " + status_string(status)};
}

}  // namespace plumbline::real::cuda
