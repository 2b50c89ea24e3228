// Checkpoints of a training: FOLDER/step-00000012/ holds manifest.json and one file per rank (rank-00003.bin,
// checkpoint_file.h). A checkpoint is written under a temporary name and renamed once all of it is on the disk, so a
// folder of that name is complete even after a crash. All ranks share one file system. Functions that take a
// communicator are collective: every rank calls them, and an error of one rank is an error on all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "real/executor/communicator.h"
#include "real/executor/training/loss_scale.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

// How far a training has come: with the state of each rank, all that is needed to continue it.
struct TrainingProgress {
  std::int64_t step = 0;       // steps done
  std::int64_t updates = 0;    // parameter updates: steps whose gradients overflowed do not count
  std::int64_t sequences = 0;  // sequences of the text that were read
  LossScaleState loss_scale;
};

struct CheckpointStore {
  std::string folder;       // created when missing
  std::string fingerprint;  // of plan and model, in lines; a checkpoint with another fingerprint is refused
  int keep = 2;             // number of newest checkpoints that are kept, at least 1
};

// Keeps other runs out of a folder of checkpoints, each of which would take the other's for left over, until it is
// destroyed or the process ends. File systems that have no locks keep nobody out.
class CheckpointLock {
 public:
  // Makes the folder. Input errors: it cannot be made or written, or another run has it.
  static model::Result<CheckpointLock> take(const std::string& folder);
  ~CheckpointLock();
  CheckpointLock(CheckpointLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  CheckpointLock& operator=(CheckpointLock&&) = delete;

 private:
  explicit CheckpointLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

// Returns the steps of the complete checkpoints in a folder, ascending; empty when the folder cannot be read.
std::vector<std::int64_t> complete_checkpoints(const std::string& folder);
std::optional<std::int64_t> latest_checkpoint(const std::string& folder);

// Writes the state of all ranks. Then removes all but the newest `keep` checkpoints, and unfinished ones of earlier
// saves. Input error when writing fails or the step already has a checkpoint; older checkpoints then stay.
model::Result<void> save_checkpoint(const CheckpointStore& store, const TrainingProgress& progress,
                                    const std::vector<StatePiece>& state, Device& device, Communicator& communicator);

// Loads the newest checkpoint into the state. Nothing is overwritten before all ranks have verified all of it. Input
// errors: there is no checkpoint, or it is damaged, or of another plan, model, number of ranks or version.
model::Result<TrainingProgress> load_checkpoint(const CheckpointStore& store, const std::vector<StatePiece>& state,
                                                Device& device, Communicator& communicator);

// What a complete checkpoint states about itself.
struct CheckpointSummary {
  std::int64_t step = 0;
  std::int32_t ranks = 1;
  std::string fingerprint;
};

// Return the newest checkpoint of a folder, and one piece of what a rank stored in it, for whoever continues with
// another plan than the one that trained. Input errors: there is no checkpoint, or it is damaged.
model::Result<CheckpointSummary> newest_checkpoint(const std::string& folder);
model::Result<std::vector<float>> read_checkpoint_piece(const std::string& folder, std::int64_t step, std::int32_t rank,
                                                        const std::string& piece);

}  // namespace plumbline::real
