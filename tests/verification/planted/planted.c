/* A file system in the page cache of Linux 6.1, to plant a loop into: ROUNDS rounds of two instructions in planted_checksum().
 *
 * lab diff has to name that function first, with 2 * ROUNDS + 1 instructions a write (docs/validation/kernels-compared.md).
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/pagemap.h>

static const struct inode_operations planted_dir;

static noinline unsigned long planted_checksum(unsigned long x)
{
#ifdef ROUNDS
    unsigned long rounds = ROUNDS;
    asm volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds));
#endif
    return x ^ 0x5c3d;
}

static ssize_t planted_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
    if (!planted_checksum(iocb->ki_pos))
        return -EIO;
    return generic_file_write_iter(iocb, from);
}

static const struct file_operations planted_file = {
    .read_iter = generic_file_read_iter, .write_iter = planted_write_iter, .mmap = generic_file_mmap, .fsync = noop_fsync,
    .llseek = generic_file_llseek,
};

static struct inode *planted_inode(struct super_block *sb, const struct inode *dir, umode_t mode)
{
    struct inode *inode = new_inode(sb);
    if (!inode)
        return NULL;
    inode->i_ino = get_next_ino();
    inode_init_owner(&init_user_ns, inode, dir, mode);
    inode->i_mapping->a_ops = &ram_aops;
    mapping_set_gfp_mask(inode->i_mapping, GFP_HIGHUSER);
    mapping_set_unevictable(inode->i_mapping);
    inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
    if (S_ISDIR(mode)) {
        inode->i_op = &planted_dir;
        inode->i_fop = &simple_dir_operations;
        inc_nlink(inode);
    } else
        inode->i_fop = &planted_file;
    return inode;
}

static int planted_create(struct user_namespace *ns, struct inode *dir, struct dentry *dentry, umode_t mode, bool excl)
{
    struct inode *inode = planted_inode(dir->i_sb, dir, mode | S_IFREG);
    if (!inode)
        return -ENOSPC;
    d_instantiate(dentry, inode);
    dget(dentry);
    return 0;
}

static int planted_mkdir(struct user_namespace *ns, struct inode *dir, struct dentry *dentry, umode_t mode)
{
    struct inode *inode = planted_inode(dir->i_sb, dir, mode | S_IFDIR);
    if (!inode)
        return -ENOSPC;
    d_instantiate(dentry, inode);
    dget(dentry);
    inc_nlink(dir);
    return 0;
}

static const struct inode_operations planted_dir = {
    .create = planted_create, .lookup = simple_lookup, .link = simple_link, .unlink = simple_unlink, .mkdir = planted_mkdir,
    .rmdir = simple_rmdir, .rename = simple_rename,
};
static const struct super_operations planted_super = {.statfs = simple_statfs, .drop_inode = generic_delete_inode};

static int planted_fill(struct super_block *sb, void *data, int silent)
{
    sb->s_op = &planted_super;
    sb->s_maxbytes = MAX_LFS_FILESIZE;
    sb->s_blocksize = PAGE_SIZE;
    sb->s_blocksize_bits = PAGE_SHIFT;
    sb->s_magic = 0x5c3d;
    sb->s_root = d_make_root(planted_inode(sb, NULL, S_IFDIR | 0755));
    return sb->s_root ? 0 : -ENOMEM;
}

static struct dentry *planted_mount(struct file_system_type *type, int flags, const char *name, void *data)
{
    return mount_nodev(type, flags, data, planted_fill);
}

static struct file_system_type planted_type = {
    .owner = THIS_MODULE, .name = "planted", .mount = planted_mount, .kill_sb = kill_litter_super,
};
static int __init planted_init(void) { return register_filesystem(&planted_type); }
module_init(planted_init);
MODULE_LICENSE("GPL");
MODULE_ALIAS_FS("planted");
