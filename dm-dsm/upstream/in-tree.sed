# SPDX-License-Identifier: GPL-2.0-only
# The sources as they are in a kernel that has what compat/ probes for.
s/dsm_bio_set_stream(\([^,]*\), \(.*\));/\1->bi_write_stream = \2;/
s/dsm_bio_stream(\([a-z_>-]*\))/\1->bi_write_stream/g
s/dsm_bio_set_hint(\([^,]*\), \(.*\));/\1->bi_write_hint = \2;/
s/dsm_bio_hint(\([a-z_>-]*\))/\1->bi_write_hint/g
s/dsm_disk_has_slaves(\([a-z_>-]*\))/!list_empty(\&\1->slave_bdevs)/
s/dsm_set_accounts_remapped_io(\(.*\));/\1->accounts_remapped_io = true;/
s/dsm_set_flush_bypasses_map(\(.*\));/\1->flush_bypasses_map = true;/
/^#if DSM_HAVE_WRITE_STREAM$/,/^$/d
/^#else\t/,/^#endif$/d
/if (!DSM_HAVE_WRITE_STREAM) {/,/^$/d
/if (!DSM_HAVE_WRITE_HINT)$/,+1d
s/ && DSM_HAVE_WRITE_HINT//
s/^static int \(.*\)(DSM_PREPARE_IOCTL_ARGS)/static int \1(struct dm_target *ti, struct block_device **bdev,\
			     unsigned int cmd, unsigned long arg,\
			     bool *forward)/
s:Documentation/dsm\.rst:Documentation/admin-guide/device-mapper/dm-dsm.rst:
