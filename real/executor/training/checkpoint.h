// Checkpoints of a training: FOLDER/step-00000012/ with a file per rank (rank-00003.bin, checkpoint_file.h) and
// manifest.json. A checkpoint is written under another name and renamed when all of it is on the disk: whatever is
// killed at whatever moment, a folder of that name is whole. All ranks see one file system. All functions that take a
// communicator are called by every rank; an error of one is an error on all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/communicator.h"
#include "real/executor/training/loss_scale.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// How far a training has come: what is needed to continue it beside the state of each rank.
struct TrainingProgress {
  std::int64_t step = 0;       // steps done
  std::int64_t updates = 0;    // of the parameters: without the steps whose gradients overflowed
  std::int64_t sequences = 0;  // of the text that were read
  LossScaleState loss_scale;
};

struct CheckpointStore {
  std::string folder;       // made when missing
  std::string fingerprint;  // of plan and model, in lines: a checkpoint of another one is refused
  int keep = 2;             // newest ones that are left, at least 1
};

// Steps of the complete checkpoints in a folder, ascending; none when it cannot be read. Partial ones do not count.
std::vector<std::int64_t> complete_checkpoints(const std::string& folder);
std::optional<std::int64_t> latest_checkpoint(const std::string& folder);

// Writes what the ranks hold, then removes what is older than the newest `keep`, and what earlier saves left behind
// unfinished. Input error where the disk does not take it or the step has a checkpoint already; what was there stays.
model::Result<void> save_checkpoint(const CheckpointStore& store, const TrainingProgress& progress,
                                    const std::vector<StatePiece>& state, Device& device, Communicator& communicator);

// Puts the newest checkpoint's contents into the state, after all ranks have verified all of it; before, nothing is
// overwritten. Input errors: none there, truncated or damaged, of another plan or model, of another number of ranks, of
// another version.
model::Result<TrainingProgress> load_checkpoint(const CheckpointStore& store, const std::vector<StatePiece>& state,
                                                Device& device, Communicator& communicator);

}  // namespace plumbline::real
