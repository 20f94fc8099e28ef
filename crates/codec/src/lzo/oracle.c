/* Test oracle: liblzo2 as a separate program. Reads jobs from stdin until it ends, each
 * `u32 level, u32 input length, u32 room, input`, and answers each with `u32 length, output`, the
 * length being 0xFFFFFFFF when liblzo2 refuses. Level 0 decodes, 1 is lzo1x_1, 101 to 109 are
 * lzo1x_999 levels 1 to 9. Numbers are in the machine's byte order. */
#include <lzo/lzo1x.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    uint32_t job[3];
    void *work = malloc(LZO1X_999_MEM_COMPRESS + LZO1X_1_MEM_COMPRESS);

    if (lzo_init() != LZO_E_OK || !work)
        return 2;
    while (fread(job, sizeof(job), 1, stdin) == 1) {
        unsigned char *in = malloc(job[1] + 1), *out = malloc(job[2] + 1);
        lzo_uint len = job[2];
        uint32_t answer;
        int status;

        if (!in || !out || fread(in, 1, job[1], stdin) != job[1])
            return 2;
        if (job[0] == 0)
            status = lzo1x_decompress_safe(in, job[1], out, &len, NULL);
        else if (job[0] == 1)
            status = lzo1x_1_compress(in, job[1], out, &len, work);
        else
            status = lzo1x_999_compress_level(in, job[1], out, &len, work, NULL, 0, 0, job[0] - 100);
        answer = status == LZO_E_OK ? (uint32_t)len : UINT32_MAX;
        fwrite(&answer, sizeof(answer), 1, stdout);
        if (status == LZO_E_OK)
            fwrite(out, 1, len, stdout);
        free(in);
        free(out);
    }
    return 0;
}
