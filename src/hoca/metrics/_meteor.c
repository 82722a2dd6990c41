/* METEOR's alignment of every candidate with the references of its video: the inner loop of hoca.metrics.meteor.
   The same steps in Python, with the reasons, are in alignment.py; tests hold the two to equal numbers. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BEAM 40
#define STATS 23
#define MAX_WORDS 128
#define NODE_MASK 0x3FFFFFu

typedef struct { int16_t start, length, other, span, module; } Match; /* start, length: candidate; other, span: reference */
typedef struct { uint64_t low, high; } Bits;
typedef struct { int matched, chunks, distance, last, next, back; Bits used1, used2; } Path;
typedef struct { int back, match; } Step;

typedef struct {
    const int32_t *stem, *synonym_start, *synonym, *phrase_word;
    const uint8_t *function;
    const uint16_t *trie_word;
    const uint32_t *child_start, *partner_start;
    const uint8_t *partner;
    uint32_t roots;
} Language;

typedef struct { Match *items; int size, room; } Matches;
typedef struct { Step *items; int size, room; } Steps;

static const double WEIGHT[4] = {1.0, 0.6, 0.8, 0.6};
static const double ALPHA = 0.85, BETA = 0.20, GAMMA = 0.60, DELTA = 0.75;

static int grow(void **items, int *room, int size, size_t width) {
    if (size < *room) return 1;
    int wanted = *room ? *room * 2 : 256;
    void *bigger = realloc(*items, (size_t)wanted * width);
    if (!bigger) return 0;
    *items = bigger;
    *room = wanted;
    return 1;
}

static int add_match(Matches *all, int start, int length, int other, int span, int module) {
    if (!grow((void **)&all->items, &all->room, all->size, sizeof(Match))) return 0;
    Match match = {(int16_t)start, (int16_t)length, (int16_t)other, (int16_t)span, (int16_t)module};
    all->items[all->size++] = match;
    return 1;
}

static Bits range_bits(int start, int length) {
    Bits bits = {0, 0};
    for (int at = start; at < start + length; at++) {
        if (at < 64) bits.low |= 1ULL << at;
        else bits.high |= 1ULL << (at - 64);
    }
    return bits;
}

static int overlap(Bits a, Bits b) { return (a.low & b.low) || (a.high & b.high); }
static Bits join(Bits a, Bits b) { a.low |= b.low; a.high |= b.high; return a; }

static int share_synset(const Language *language, int32_t a, int32_t b) {
    const int32_t *x = language->synonym + language->synonym_start[a], *x_end = language->synonym + language->synonym_start[a + 1];
    const int32_t *y = language->synonym + language->synonym_start[b], *y_end = language->synonym + language->synonym_start[b + 1];
    while (x < x_end && y < y_end) {
        if (*x == *y) return 1;
        if (*x < *y) x++;
        else y++;
    }
    return 0;
}

static int64_t find_child(const Language *language, int64_t node, int32_t word) {
    uint32_t low = node < 0 ? 0 : language->child_start[node];
    uint32_t high = node < 0 ? language->roots : language->child_start[node + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (language->trie_word[middle] < word) low = middle + 1;
        else high = middle;
    }
    uint32_t end = node < 0 ? language->roots : language->child_start[node + 1];
    return low < end && language->trie_word[low] == word ? (int64_t)low : -1;
}

/* How a match is ranked against others that begin at the same word of the reference. */
typedef struct { int pass, first, second, third, index; const int32_t *target; int target_length; } Rank;

/* The table names the paraphrases of a phrase in alphabetical order, which is the order of their words' numbers. */
static Rank rank_of(const Match *match, int pass, int index, const int32_t *phrase_words1) {
    Rank rank = {pass, 0, 0, 0, index, NULL, 0};
    if (pass == 1) {
        rank.first = match->span;
        rank.target = phrase_words1 + match->start;
        rank.target_length = match->length;
        rank.second = match->start;
    } else {
        rank.first = match->start;
        rank.second = match->length;
        rank.third = match->span;
    }
    return rank;
}

static int compare_ranks(const void *left, const void *right) {
    const Rank *a = left, *b = right;
    if (a->pass != b->pass) return a->pass - b->pass;
    if (a->first != b->first) return a->first - b->first;
    for (int at = 0; at < a->target_length && at < b->target_length; at++)
        if (a->target[at] != b->target[at]) return a->target[at] < b->target[at] ? -1 : 1;
    if (a->target_length != b->target_length) return a->target_length - b->target_length;
    if (a->second != b->second) return a->second - b->second;
    if (a->third != b->third) return a->third - b->third;
    return a->index - b->index;
}

static void weigh(const Path *path, uint64_t *key) {
    *key = ((uint64_t)(0xFFFFF - path->matched) << 44) | ((uint64_t)path->chunks << 24) | (uint64_t)(path->distance & 0xFFFFFF);
}

/* Keep the best BEAM paths in the order of a stable sort. */
static int keep_best(Path *best, uint64_t *keys, int size, const Path *candidate) {
    uint64_t key;
    weigh(candidate, &key);
    if (size == BEAM && key >= keys[BEAM - 1]) return size;
    int at = size < BEAM ? size : BEAM - 1;
    while (at > 0 && keys[at - 1] > key) {
        keys[at] = keys[at - 1];
        best[at] = best[at - 1];
        at--;
    }
    keys[at] = key;
    best[at] = *candidate;
    return size < BEAM ? size + 1 : size;
}

static int record(Steps *steps, int back, int match) {
    if (!grow((void **)&steps->items, &steps->room, steps->size, sizeof(Step))) return -1;
    Step step = {back, match};
    steps->items[steps->size] = step;
    return steps->size++;
}

static int take(const Path *path, const Match *match, int index, int distance, Steps *steps, Path *taken) {
    *taken = *path;
    taken->matched += match->module ? match->length / 2 + match->span / 2 : 2; /* half weight, rounded down */
    taken->chunks += path->last != -1 && path->last != match->start;
    taken->distance = distance;
    taken->last = match->start + match->length;
    taken->next = match->other + match->span;
    taken->used1 = join(path->used1, range_bits(match->start, match->length));
    taken->used2 = join(path->used2, range_bits(match->other, match->span));
    taken->back = record(steps, path->back, index);
    return taken->back >= 0;
}

/* Beam search over the words of the reference; returns the last step of the best path and its chunks, -2 if out of memory. */
static int search(const Match *matches, int count, const int *first, const uint8_t *certain, int words2, Steps *steps, int *chunks) {
    Path paths[BEAM], next[BEAM];
    uint64_t keys[BEAM];
    Path start = {0, 0, 0, -1, 0, -1, {0, 0}, {0, 0}};
    for (int at = 0; at < count; at++) {
        if (!certain[at]) continue;
        start.used1 = join(start.used1, range_bits(matches[at].start, matches[at].length));
        start.used2 = join(start.used2, range_bits(matches[at].other, matches[at].span));
    }
    int size = 1;
    paths[0] = start;
    for (int position = 0; position < words2; position++) {
        int grown = 0;
        for (int rank = 0; rank < size; rank++) {
            Path path = paths[rank], taken;
            if (path.next > position) { grown = keep_best(next, keys, grown, &path); continue; }
            int settled = 0;
            for (int at = first[position]; at < first[position + 1]; at++) {
                const Match *match = &matches[at];
                if (certain[at]) {
                    if (!take(&path, match, at, path.distance, steps, &taken)) return -2;
                    grown = keep_best(next, keys, grown, &taken);
                    settled = 1;
                    break;
                }
                if (overlap(path.used1, range_bits(match->start, match->length)) || overlap(path.used2, range_bits(match->other, match->span))) continue;
                if (!take(&path, match, at, path.distance, steps, &taken)) return -2;
                grown = keep_best(next, keys, grown, &taken);
                path.distance += abs(match->start - match->other);
            }
            if (settled) continue;
            path.chunks += path.last != -1;
            path.last = -1;
            path.next = position + 1;
            grown = keep_best(next, keys, grown, &path);
        }
        memcpy(paths, next, sizeof(Path) * (size_t)grown);
        size = grown;
    }
    int grown = 0;
    for (int rank = 0; rank < size; rank++) {
        paths[rank].chunks += paths[rank].last != -1;
        grown = keep_best(next, keys, grown, &paths[rank]);
    }
    *chunks = next[0].chunks;
    return next[0].back;
}

static double score_of(const double *stats) {
    double matched1 = 0, matched2 = 0;
    for (int module = 0; module < 4; module++) {
        const double *part = stats + 4 + 4 * module;
        matched1 += WEIGHT[module] * (DELTA * part[0] + (1 - DELTA) * part[2]);
        matched2 += WEIGHT[module] * (DELTA * part[1] + (1 - DELTA) * part[3]);
    }
    double length1 = DELTA * (stats[0] - stats[2]) + (1 - DELTA) * stats[2];
    double length2 = DELTA * (stats[1] - stats[3]) + (1 - DELTA) * stats[3];
    if (matched1 <= 0 || matched2 <= 0) return 0;
    double precision = matched1 / length1, recall = matched2 / length2;
    double mean = 1 / ((1 - ALPHA) / precision + ALPHA / recall);
    double fragments = stats[20] / ((stats[21] + stats[22]) / 2);
    if (stats[20] == 1 && stats[21] == stats[0] && stats[22] == stats[1]) fragments = 0;
    return mean * (1 - (fragments > 0 ? GAMMA * pow(fragments, BETA) : 0));
}

typedef struct { Matches sorted; Rank *ranks; int ranks_room; uint8_t *certain; int certain_room; Steps steps; } Scratch;

static int align(const Language *language, const int32_t *words1, int size1, const int32_t *words2, int size2, const Matches *phrases, const uint8_t *flags, Scratch *scratch, double *stats) {
    Matches *sorted = &scratch->sorted;
    int first[MAX_WORDS + 1];
    int32_t phrase_words1[MAX_WORDS];
    for (int at = 0; at < size1; at++) phrase_words1[at] = language->phrase_word[words1[at]];
    int same = size1 == size2 && !memcmp(words1, words2, sizeof(int32_t) * (size_t)size1);
    sorted->size = 0;
    for (int other = 0; other < size2; other++) {
        int32_t theirs = words2[other];
        first[other] = sorted->size;
        for (int start = 0; start < size1; start++)
            if (words1[start] == theirs && !add_match(sorted, start, 1, other, 1, 0)) return 0;
        if (same) continue;
        for (int start = 0; start < size1; start++)
            if (words1[start] != theirs && language->stem[words1[start]] == language->stem[theirs] && !add_match(sorted, start, 1, other, 1, 1)) return 0;
        for (int start = 0; start < size1; start++)
            if (words1[start] != theirs && share_synset(language, words1[start], theirs) && !add_match(sorted, start, 1, other, 1, 2)) return 0;
        int ranked = 0;
        for (int at = 0; at < phrases->size; at++) {
            if (phrases->items[at].other != other) continue;
            for (int pass = 1; pass <= 2; pass++) {
                if (!(flags[at] & (pass == 1 ? 2 : 1))) continue;
                if (!grow((void **)&scratch->ranks, &scratch->ranks_room, ranked, sizeof(Rank))) return 0;
                scratch->ranks[ranked++] = rank_of(&phrases->items[at], pass, at, phrase_words1);
            }
        }
        if (ranked > 1) qsort(scratch->ranks, (size_t)ranked, sizeof(Rank), compare_ranks);
        for (int at = 0; at < ranked; at++) {
            const Match *match = &phrases->items[scratch->ranks[at].index];
            if (!add_match(sorted, match->start, match->length, match->other, match->span, 3)) return 0;
        }
    }
    first[size2] = sorted->size;
    int covered1[MAX_WORDS] = {0}, covered2[MAX_WORDS] = {0};
    for (int at = 0; at < sorted->size; at++) {
        const Match *match = &sorted->items[at];
        for (int word = match->start; word < match->start + match->length; word++) covered1[word]++;
        for (int word = match->other; word < match->other + match->span; word++) covered2[word]++;
        if (!grow((void **)&scratch->certain, &scratch->certain_room, at, 1)) return 0;
    }
    for (int at = 0; at < sorted->size; at++) {
        const Match *match = &sorted->items[at];
        uint8_t alone = 1;
        for (int word = match->start; word < match->start + match->length; word++) alone &= covered1[word] == 1;
        for (int word = match->other; word < match->other + match->span; word++) alone &= covered2[word] == 1;
        scratch->certain[at] = alone;
    }
    int chunks = 0;
    scratch->steps.size = 0;
    int step = search(sorted->items, sorted->size, first, scratch->certain, size2, &scratch->steps, &chunks);
    if (step == -2) return 0;
    memset(stats, 0, sizeof(double) * STATS);
    stats[0] = size1;
    stats[1] = size2;
    for (int at = 0; at < size1; at++) stats[2] += language->function[words1[at]];
    for (int at = 0; at < size2; at++) stats[3] += language->function[words2[at]];
    stats[20] = chunks;
    for (; step >= 0; step = scratch->steps.items[step].back) {
        const Match *match = &sorted->items[scratch->steps.items[step].match];
        double *part = stats + 4 + 4 * match->module;
        for (int word = match->start; word < match->start + match->length; word++) part[language->function[words1[word]] ? 2 : 0]++;
        for (int word = match->other; word < match->other + match->span; word++) part[language->function[words2[word]] ? 3 : 1]++;
        stats[21] += match->length;
        stats[22] += match->span;
    }
    return 1;
}

typedef struct { uint32_t node; int32_t reference; int16_t start, length; } Occurrence;

/* phrases(words, offsets, phrase_word, trie_word, child_start, partner_start, roots): the phrases of each sentence that
   have paraphrases, as packed Occurrence records. */
static PyObject *phrases(PyObject *self, PyObject *args) {
    Py_buffer words, offsets, phrase_word, trie_word, child_start, partner_start;
    unsigned int roots;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*I", &words, &offsets, &phrase_word, &trie_word, &child_start, &partner_start, &roots)) return NULL;
    Language language = {0};
    language.phrase_word = phrase_word.buf;
    language.trie_word = trie_word.buf;
    language.child_start = child_start.buf;
    language.partner_start = partner_start.buf;
    language.roots = roots;
    const int32_t *all = words.buf;
    const int64_t *bounds = offsets.buf;
    int64_t sentences = offsets.len / (int64_t)sizeof(int64_t) - 1;
    Occurrence *found = NULL;
    int size = 0, room = 0, healthy = 1;
    for (int64_t sentence = 0; sentence < sentences && healthy; sentence++) {
        for (int64_t start = bounds[sentence]; start < bounds[sentence + 1] && healthy; start++) {
            int64_t node = -1;
            for (int64_t end = start; end < bounds[sentence + 1]; end++) {
                int32_t word = language.phrase_word[all[end]];
                node = word < 0 ? -1 : find_child(&language, node, word);
                if (node < 0) break;
                if (language.partner_start[node] == language.partner_start[node + 1]) continue;
                if (!grow((void **)&found, &room, size, sizeof(Occurrence))) { healthy = 0; break; }
                Occurrence occurrence = {(uint32_t)node, (int32_t)sentence, (int16_t)(start - bounds[sentence]), (int16_t)(end - start + 1)};
                found[size++] = occurrence;
            }
        }
    }
    PyObject *packed = healthy ? PyBytes_FromStringAndSize((const char *)found, (Py_ssize_t)size * (Py_ssize_t)sizeof(Occurrence)) : PyErr_NoMemory();
    free(found);
    Py_buffer *held[] = {&words, &offsets, &phrase_word, &trie_word, &child_start, &partner_start};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) PyBuffer_Release(held[at]);
    return packed;
}

typedef struct { Matches matches; uint8_t *flags; int flags_room; } Paraphrases;

static int add_paraphrase(Paraphrases *list, const Occurrence *ours, const Occurrence *theirs, int flags) {
    if (!grow((void **)&list->flags, &list->flags_room, list->matches.size, 1)) return 0;
    list->flags[list->matches.size] = (uint8_t)flags;
    return add_match(&list->matches, ours->start, ours->length, theirs->start, theirs->length, 3);
}

/* Fill lists[r] with the paraphrases between a candidate and reference r, all references of one video at once. */
static int find_paraphrases(const Language *language, const Occurrence *ours, int64_t our_count, const Occurrence *theirs, int64_t their_count, int64_t first_reference, Paraphrases *lists) {
    for (int64_t at = 0; at < our_count; at++) {
        uint32_t low = language->partner_start[ours[at].node], high = language->partner_start[ours[at].node + 1];
        int64_t other = 0;
        while (low < high && other < their_count) {
            const uint8_t *bytes = language->partner + 3 * (size_t)low;
            uint32_t packed = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
            uint32_t node = packed & NODE_MASK;
            if (node < theirs[other].node) { low++; continue; }
            if (node > theirs[other].node) { other++; continue; }
            for (int64_t same = other; same < their_count && theirs[same].node == node; same++)
                if (!add_paraphrase(&lists[theirs[same].reference - first_reference], &ours[at], &theirs[same], (int)(packed >> 22))) return 0;
            low++;
        }
    }
    return 1;
}

/* score(candidates, their offsets, their phrases and offsets; references, offsets, first reference per video, phrases
   sorted by node within a video and offsets; the language's arrays; first video, last video, stats out, scores out). */
static PyObject *score(PyObject *self, PyObject *args) {
    Py_buffer b[20];
    unsigned int roots;
    long long begin, end;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*y*Iw*w*LL", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8], &b[9], &b[10], &b[11], &b[12], &b[13], &b[14], &b[15], &b[16], &b[17], &roots, &b[18], &b[19], &begin, &end)) return NULL;
    const int32_t *words1 = b[0].buf, *words2 = b[4].buf;
    const int64_t *bounds1 = b[1].buf, *phrase_bounds1 = b[3].buf, *bounds2 = b[5].buf, *first = b[6].buf, *phrase_bounds2 = b[8].buf;
    const Occurrence *phrases1 = b[2].buf, *phrases2 = b[7].buf;
    Language language = {b[9].buf, b[10].buf, b[11].buf, b[12].buf, b[13].buf, b[14].buf, b[15].buf, b[16].buf, b[17].buf, roots};
    double *out = b[18].buf, *scores = b[19].buf;
    int healthy = 1;
    Py_BEGIN_ALLOW_THREADS
    Scratch scratch;
    memset(&scratch, 0, sizeof scratch);
    Paraphrases *lists = NULL;
    int64_t lists_room = 0;
    for (int64_t video = begin; video < end && healthy; video++) {
        int64_t references = first[video + 1] - first[video];
        if (references > lists_room) {
            Paraphrases *bigger = realloc(lists, sizeof(Paraphrases) * (size_t)references);
            if (!bigger) { healthy = 0; break; }
            lists = bigger;
            memset(lists + lists_room, 0, sizeof(Paraphrases) * (size_t)(references - lists_room));
            lists_room = references;
        }
        for (int64_t at = 0; at < references; at++) lists[at].matches.size = 0;
        healthy = find_paraphrases(&language, phrases1 + phrase_bounds1[video], phrase_bounds1[video + 1] - phrase_bounds1[video], phrases2 + phrase_bounds2[video], phrase_bounds2[video + 1] - phrase_bounds2[video], first[video], lists);
        double best = -1, stats[STATS];
        for (int64_t reference = first[video]; reference < first[video + 1] && healthy; reference++) {
            int size1 = (int)(bounds1[video + 1] - bounds1[video]), size2 = (int)(bounds2[reference + 1] - bounds2[reference]);
            Paraphrases *list = &lists[reference - first[video]];
            healthy = align(&language, words1 + bounds1[video], size1, words2 + bounds2[reference], size2, &list->matches, list->flags, &scratch, stats);
            double value = healthy ? score_of(stats) : 0;
            if (healthy && value > best) {
                best = value;
                memcpy(out + STATS * video, stats, sizeof stats);
                scores[video] = value;
            }
        }
    }
    for (int64_t at = 0; at < lists_room; at++) { free(lists[at].matches.items); free(lists[at].flags); }
    free(lists);
    free(scratch.sorted.items);
    free(scratch.ranks);
    free(scratch.certain);
    free(scratch.steps.items);
    Py_END_ALLOW_THREADS
    for (int at = 0; at < 20; at++) PyBuffer_Release(&b[at]);
    if (!healthy) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"phrases", phrases, METH_VARARGS, "Phrases of each sentence that have paraphrases."},
    {"score", score, METH_VARARGS, "Statistics and score of each candidate with its best reference."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_meteor", "METEOR's inner loop.", -1, METHODS, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__meteor(void) { return PyModule_Create(&MODULE); }
