// Runs passes of inference on a rank of an instance, layer by layer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/layers/blocks.h"
#include "model/plan/plan.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/step/rank_state.h"
#include "real/executor/step/trained_parameters.h"

namespace plumbline::real {

// A rank of an instance, its share of the requests, and the parameters, keys and values that passes share.
struct InstanceRank {
  const model::Architecture* architecture = nullptr;
  Device* device = nullptr;
  Communicator* communicator = nullptr;
  model::Plan::Parallelism degrees;  // experts are divided over all ranks of the instance
  RankPlace place;
  std::int64_t requests = 0, first_request = 0;  // of this rank; the first one's number among those of all
  std::map<std::pair<std::int64_t, std::string>, BufferPointer> held;  // by layer, -1: embedding and head
};

class PassRunner {
 public:
  // Builds the blocks of the passes. The rank must outlive it.
  PassRunner(InstanceRank& rank, const model::LayerContext& context);

  // Takes the parameters that the rank does not hold yet from a checkpoint, and allocates the caches.
  model::Result<void> hold(TrainedParameters& trained);
  // Returns the first format of its tensors that the device does not compute with, and the key that sets it.
  std::optional<std::pair<model::DataType, std::string>> missing_format() const;

  // Runs a pass over tokens of all requests, the same number of each, after `cached` tokens of each. Returns the token
  // that follows each request; waits for the device.
  model::Result<std::vector<float>> run(const std::vector<float>& token_ids, std::int64_t cached,
                                        const StepNumbers& numbers);

 private:
  struct Kind {
    model::Graph graph, whole;  // what the rank has of it, and all of it
    std::map<model::TensorId, BufferPointer> activations;
  };
  model::Result<void> hold_parameter(std::int64_t layer, const Kind& kind, const model::Tensor& tensor,
                                     TrainedParameters& trained);
  void run_block(std::int64_t layer, Kind& kind, Buffer* input, Buffer* output, const StepNumbers& numbers);
  Buffer* bind(std::int64_t layer, Kind& kind, model::TensorId id, Buffer* input, Buffer* output);
  void launch(const Kernel& kernel);

  InstanceRank& rank_;
  std::vector<std::pair<std::int64_t, model::BlockKind>> blocks_;  // layer and kind
  std::map<model::BlockKind, Kind> kinds_;
  BufferPointer streams_[2];                   // what blocks pass on, in turns
  std::map<std::string, BufferPointer> data_;  // token ids and lengths
};

}  // namespace plumbline::real
