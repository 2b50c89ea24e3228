#include "real/cuda/vendor/cublaslt.h"

#include <type_traits>

namespace plumbline::real::cuda {

CublasLt::~CublasLt() {
  if (handle != nullptr) destroy(handle);
}

std::unique_ptr<CublasLt> CublasLt::open(const std::vector<std::string>& folders, std::string& error) {
  auto lt = std::make_unique<CublasLt>();
  lt->library = Library::open(known_library("cuBLASLt"), folders, error);
  if (!lt->library) return nullptr;
  const Library& l = *lt->library;
  const auto load = [&](auto& function, const char* name) {
    using Pointer = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Pointer>(l.symbol(name));
    if (function == nullptr) error = l.path() + " has no " + name;
  };
  load(lt->create, "cublasLtCreate");
  load(lt->destroy, "cublasLtDestroy");
  load(lt->version, "cublasLtGetVersion");
  load(lt->status_string, "cublasLtGetStatusString");
  load(lt->operation_create, "cublasLtMatmulDescCreate");
  load(lt->operation_destroy, "cublasLtMatmulDescDestroy");
  load(lt->operation_set, "cublasLtMatmulDescSetAttribute");
  load(lt->layout_create, "cublasLtMatrixLayoutCreate");
  load(lt->layout_destroy, "cublasLtMatrixLayoutDestroy");
  load(lt->layout_set, "cublasLtMatrixLayoutSetAttribute");
  load(lt->preference_create, "cublasLtMatmulPreferenceCreate");
  load(lt->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  load(lt->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  load(lt->heuristic, "cublasLtMatmulAlgoGetHeuristic");
  load(lt->algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute");
  load(lt->matmul, "cublasLtMatmul");
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
