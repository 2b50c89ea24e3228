// One rank's file of a checkpoint: written once, verified before anything in it is used. It begins with whose it is and
// where each piece of the state lies:
//
// "PLUMBCKP" (8 bytes), version (u32), CRC-32 of the body (u32), bytes of the body (u64), body: step (i64), rank (i32),
// ranks (i32), fingerprint (text), number of pieces (u32), and of each piece: name (text), elements (u64), offset in
// the file (u64, bytes), CRC-32 of its data (u32). A text is its length (u32) and its bytes. All little-endian; the
// data are floats of 32 bits behind the body, piece after piece.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "real/executor/training/training_step.h"

namespace plumbline::real {

inline constexpr std::string_view checkpoint_magic = "PLUMBCKP";
inline constexpr std::uint32_t checkpoint_version = 1;
inline constexpr std::uint64_t checkpoint_preamble_bytes = 24;  // before the body

// Which run wrote a checkpoint. Files of another plan or model, or of another rank, do not fit.
struct CheckpointIdentity {
  std::int64_t step = 0;  // steps that had been trained
  std::int32_t rank = 0, ranks = 1;
  std::string fingerprint;  // lines that differ where plan or model differ
};

struct CheckpointPiece {
  std::string name;
  std::uint64_t elements = 0, offset = 0;
  std::uint32_t crc = 0;
};

struct CheckpointHeader {
  CheckpointIdentity identity;
  std::vector<CheckpointPiece> pieces;
};

std::string encode_body(const CheckpointHeader& header);
// nullopt where the bytes are no body.
std::optional<CheckpointHeader> decode_body(std::string_view bytes);

struct CheckpointPreamble {
  std::uint32_t version = checkpoint_version;
  std::uint32_t crc = 0;  // of the body, and with it of all data
  std::uint64_t body_bytes = 0;
};
std::string encode_preamble(const CheckpointPreamble& preamble);
// nullopt where the magic is missing.
std::optional<CheckpointPreamble> decode_preamble(std::string_view bytes);

// CRC-32 of ISO 3309, zlib's.
std::uint32_t crc32_of(std::string_view bytes);

// Errors of a file of a checkpoint, and what to do.
tl::unexpected<model::Error> damaged_checkpoint(const std::string& path, const std::string& what);
tl::unexpected<model::Error> other_version(const std::string& path, std::int64_t version);

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

  std::string path_;
  std::ifstream stream_;
  CheckpointHeader header_;
  std::uint32_t crc_ = 0;
};

}  // namespace plumbline::real
