#include "real/executor/checkpoint_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "real/executor/durable_file.h"

namespace plumbline::real {
namespace {

constexpr std::uint64_t element_bytes = sizeof(float);

std::string_view bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * element_bytes};
}

std::span<const std::byte> raw(std::string_view bytes) { return std::as_bytes(std::span(bytes)); }

}  // namespace

model::Result<std::uint32_t> write_checkpoint_file(const std::string& path, const CheckpointIdentity& identity,
                                                   const std::vector<StatePiece>& state, Device& device) {
  auto file = DurableFile::create(path);
  if (!file) return tl::unexpected(file.error());
  CheckpointHeader header{.identity = identity};
  for (const StatePiece& piece : state) header.pieces.push_back({.name = piece.name});
  // Numbers have fixed widths: the body is as long before they are known as afterwards.
  std::uint64_t end = checkpoint_preamble_bytes + encode_body(header).size();
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::vector<float> values = device.read(*state[i].buffer);
    CheckpointPiece& piece = header.pieces[i];
    piece.elements = values.size();
    piece.offset = end;
    piece.crc = crc32_of(bytes_of(values));
    if (auto written = file->write(static_cast<std::int64_t>(end), raw(bytes_of(values))); !written) {
      return tl::unexpected(written.error());
    }
    end += piece.elements * element_bytes;
  }
  const std::string body = encode_body(header);
  const std::uint32_t crc = crc32_of(body);
  const std::string front = encode_preamble({.crc = crc, .body_bytes = body.size()}) + body;
  if (auto written = file->write(0, raw(front)); !written) return tl::unexpected(written.error());
  if (auto finished = file->finish(); !finished) return tl::unexpected(finished.error());
  return crc;
}

model::Result<CheckpointFile> CheckpointFile::open(const std::string& path) {
  CheckpointFile file(path, std::ifstream(path, std::ios::binary));
  if (!file.stream_) {
    return tl::unexpected(
        model::Error{.message = "cannot be read", .file = path, .hint = "every rank must see the whole checkpoint"});
  }
  if (auto read = file.read_header(); !read) return tl::unexpected(read.error());
  return file;
}

tl::unexpected<model::Error> CheckpointFile::damaged(const std::string& what) const {
  return tl::unexpected(model::Error{
      .message = what, .file = path_, .hint = "remove this checkpoint's folder to continue from the one before it"});
}

model::Result<void> CheckpointFile::read_header() {
  stream_.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(stream_.tellg());
  stream_.seekg(0);
  std::string front(checkpoint_preamble_bytes, '\0');
  stream_.read(front.data(), static_cast<std::streamsize>(front.size()));
  const auto preamble = stream_ ? decode_preamble(front) : std::nullopt;
  if (!preamble) return damaged("is no checkpoint of plumbline");
  if (preamble->version != checkpoint_version) {
    return tl::unexpected(model::Error{
        .message = fmt::format("is of version {}; version {} can be read", preamble->version, checkpoint_version),
        .file = path_,
        .hint = "continue with the plumbline that wrote it"});
  }
  if (preamble->body_bytes > bytes - checkpoint_preamble_bytes) return damaged("is cut off in its header");
  std::string body(preamble->body_bytes, '\0');
  stream_.read(body.data(), static_cast<std::streamsize>(body.size()));
  if (!stream_ || crc32_of(body) != preamble->crc) return damaged("has a damaged header");
  auto header = decode_body(body);
  if (!header) return damaged("has a damaged header");
  header_ = std::move(*header);
  crc_ = preamble->crc;
  return check_extent(checkpoint_preamble_bytes + preamble->body_bytes, bytes);
}

model::Result<void> CheckpointFile::check_extent(std::uint64_t end_of_header, std::uint64_t bytes) const {
  std::uint64_t end = end_of_header;
  for (const CheckpointPiece& piece : header_.pieces) {
    if (piece.offset != end) return damaged("has a damaged header");
    if (piece.elements > (bytes - end) / element_bytes) return damaged("is cut off in piece '" + piece.name + "'");
    end += piece.elements * element_bytes;
  }
  if (end != bytes) return damaged("is longer than its header says");
  return {};
}

const CheckpointPiece* CheckpointFile::find(std::string_view name) const {
  const auto found = std::find_if(header_.pieces.begin(), header_.pieces.end(),
                                  [&](const CheckpointPiece& piece) { return piece.name == name; });
  return found == header_.pieces.end() ? nullptr : &*found;
}

model::Result<std::vector<float>> CheckpointFile::read(const CheckpointPiece& piece) {
  std::vector<float> values(piece.elements);
  stream_.clear();
  stream_.seekg(static_cast<std::streamoff>(piece.offset));
  stream_.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(piece.elements * element_bytes));
  if (!stream_) return damaged("cannot be read in piece '" + piece.name + "'");
  if (crc32_of(bytes_of(values)) != piece.crc) return damaged("is damaged in piece '" + piece.name + "'");
  return values;
}

}  // namespace plumbline::real
