// out[r] = scale table[ids[r]]; dtable[id] += scale * sum of dout[r] over the rows r with that id.
//
// The gradient's difficulty is that a vocabulary may be tiny (ten thousand rows share three ids) or
// large (hardly any id repeats), and neither may leave threads idle or depend on them. So the rows
// are ordered by id with a stable counting sort and the *sorted list* is cut into equal pieces. A
// piece adds up its rows run by run (a run = one id). A run that lies inside a piece goes straight
// into the table; one that crosses a piece's border is left in a partial row, of which a piece has
// at most two, and these are added afterwards in piece order.
#include "core/cpu/embedding.h"

#include <algorithm>

#include "core/cpu/lanes.h"
#include "core/cpu/pieces.h"
#include "core/cpu/scratch.h"

namespace longshot::cpu {

template <class T>
void embedding(const EmbeddingArgs& args) {
  const T* table = typed<T>(args.table);
  T* out = typed<T>(args.out);
  const Vec<T> scale(T(args.scale));
  for_rows(args.count, args.columns, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      map_into<false>(
          args.columns, out + r * args.columns, [&](Vec<T> v) { return v * scale; },
          table + int64_t(args.ids[r]) * args.columns);
    }
  });
}

namespace {

// order[k] = the row that stands at place k when rows are ordered by id, equal ids in row order.
void sort_by_id(const int32_t* ids, int64_t count, int64_t rows, int32_t* order) {
  ScratchScope scratch;
  int32_t* next = scratch.allocate<int32_t>(rows + 1);
  std::fill(next, next + rows + 1, 0);
  for (int64_t r = 0; r < count; ++r) ++next[ids[r] + 1];
  for (int64_t id = 0; id < rows; ++id) next[id + 1] += next[id];
  for (int64_t r = 0; r < count; ++r) order[next[ids[r]]++] = int32_t(r);
}

template <class T>
struct SortedRows {
  const int32_t* ids;
  const int32_t* order;
  const T* dout;
  int64_t count, columns;

  int32_t id(int64_t place) const { return ids[order[place]]; }
  const T* row(int64_t place) const { return dout + int64_t(order[place]) * columns; }
  int64_t run_end(int64_t begin, int64_t limit) const {
    int64_t end = begin + 1;
    while (end < limit && id(end) == id(begin)) ++end;
    return end;
  }
  bool starts_before(int64_t begin) const { return begin > 0 && id(begin - 1) == id(begin); }
  bool goes_on_after(int64_t end) const { return end < count && id(end - 1) == id(end); }
  void sum(int64_t begin, int64_t end, T* to) const {
    std::copy(row(begin), row(begin) + columns, to);
    for (int64_t place = begin + 1; place < end; ++place) {
      map_into<true>(
          columns, to, [](Vec<T> v) { return v; }, row(place));
    }
  }
};

}  // namespace

template <class T>
void embedding_backward(const EmbeddingBackwardArgs& args) {
  const int64_t columns = args.columns, count = args.count;
  T* table = typed<T>(args.dtable);
  const Vec<T> scale(T(args.scale));
  if (!args.accumulate) {
    for_elements(args.rows * columns,
                 [&](int64_t begin, int64_t end) { std::fill(table + begin, table + end, T(0)); });
  }
  if (count <= 0 || columns <= 0) return;
  LONGSHOT_CHECK(count < (int64_t(1) << 31), "embedding_backward: {} ids, at most 2^31 - 1", count);
  ScratchScope scratch;
  int32_t* order = scratch.allocate<int32_t>(count);
  sort_by_id(args.ids, count, args.rows, order);
  const SortedRows<T> sorted{args.ids, order, typed<T>(args.dout), count, columns};

  const RowPieces pieces(count, 32);
  T* partial =
      scratch.allocate<T>(pieces.count * 2 * columns);  // (pieces, first or last run, columns)
  int32_t* partial_id =
      scratch.allocate<int32_t>(pieces.count * 2);  // -1: that partial is not used
  const auto add = [&](int64_t id, const T* sums, int64_t begin, int64_t end) {
    map_into<true>(
        end - begin, table + id * columns + begin, [&](Vec<T> v) { return v * scale; },
        sums + begin);
  };
  parallel_for(
      pieces.count,
      [&](int64_t p) {
        const int64_t end = pieces.end(p);
        int64_t slot = 2 * p;
        partial_id[slot] = partial_id[slot + 1] = -1;
        for (int64_t begin = pieces.begin(p), next; begin < end; begin = next, slot = 2 * p + 1) {
          next = sorted.run_end(begin, end);
          const bool crosses =
              sorted.starts_before(begin) || (next == end && sorted.goes_on_after(end));
          if (!crosses && next == begin + 1) {
            add(sorted.id(begin), sorted.row(begin), 0, columns);
            continue;
          }
          sorted.sum(begin, next, partial + slot * columns);
          if (crosses) {
            partial_id[slot] = sorted.id(begin);
          } else {
            add(sorted.id(begin), partial + slot * columns, 0, columns);
          }
        }
      },
      count * columns >= kParallelElements);
  for_ranges(columns, 64, pieces.count * 2, [&](int64_t begin, int64_t end) {
    for (int64_t slot = 0; slot < pieces.count * 2; ++slot) {
      if (partial_id[slot] >= 0) add(partial_id[slot], partial + slot * columns, begin, end);
    }
  });
}

template void embedding<float>(const EmbeddingArgs&);
template void embedding<double>(const EmbeddingArgs&);
template void embedding_backward<float>(const EmbeddingBackwardArgs&);
template void embedding_backward<double>(const EmbeddingBackwardArgs&);

}  // namespace longshot::cpu
