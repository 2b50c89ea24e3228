// Replaces cudnn_attention.cc if cuDNN's headers were not found.
#include "real/cuda/operators/cudnn/attention_library.h"

namespace plumbline::real::cuda {

std::unique_ptr<Attention> open_attention(const std::vector<std::string>& /*folders*/, std::string& error) {
  error = "this program was built without cuDNN's headers";
  return nullptr;
}

}  // namespace plumbline::real::cuda
