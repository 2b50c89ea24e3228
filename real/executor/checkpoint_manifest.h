// manifest.json of a checkpoint: what all its ranks have in common. It is written last, so a folder that has one is
// whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/loss_scale.h"

namespace plumbline::real {

// How far a training has come: what is needed to continue it beside the state of each rank.
struct TrainingProgress {
  std::int64_t step = 0;       // steps done
  std::int64_t updates = 0;    // of the parameters: without the steps whose gradients overflowed
  std::int64_t sequences = 0;  // of the text that were read
  LossScaleState loss_scale;
};

struct CheckpointManifest {
  std::string fingerprint;
  TrainingProgress progress;
  std::vector<std::uint32_t> files;  // CRC-32 of the header of each rank's file
};

std::string to_json(const CheckpointManifest& manifest);
// Input errors: another version, or not what to_json() wrote (a checksum tells).
model::Result<CheckpointManifest> read_manifest(const std::string& path);

}  // namespace plumbline::real
