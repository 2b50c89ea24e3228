// One rank's file of a checkpoint: written once, verified before anything in it is used.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "real/executor/checkpoint_header.h"
#include "real/executor/training_step.h"

namespace plumbline::real {

// Writes all pieces, one at a time through the host's memory, and waits for the disk. Returns the CRC-32 of the header,
// which covers those of the data. Input error where the disk does not take it.
model::Result<std::uint32_t> write_checkpoint_file(const std::string& path, const CheckpointIdentity& identity,
                                                   const std::vector<StatePiece>& state, Device& device);

class CheckpointFile {
 public:
  // Checks the header, its version and that the file is as long as it says. Input errors say what is wrong, which
  // piece is cut off, and what to do.
  static model::Result<CheckpointFile> open(const std::string& path);

  const CheckpointHeader& header() const { return header_; }
  std::uint32_t crc() const { return crc_; }
  // nullptr when there is none of that name.
  const CheckpointPiece* find(std::string_view name) const;
  // The data of a piece; input error when they are not those that were written.
  model::Result<std::vector<float>> read(const CheckpointPiece& piece);

 private:
  CheckpointFile(std::string path, std::ifstream stream) : path_(std::move(path)), stream_(std::move(stream)) {}
  model::Result<void> read_header();
  model::Result<void> check_extent(std::uint64_t end_of_header, std::uint64_t bytes) const;
  tl::unexpected<model::Error> damaged(const std::string& what) const;

  std::string path_;
  std::ifstream stream_;
  CheckpointHeader header_;
  std::uint32_t crc_ = 0;
};

}  // namespace plumbline::real
