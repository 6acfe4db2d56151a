set $dir=/d
set $nfiles=60
set $filesize=cvar(type=cvar-gamma,parameters=mean:131072;gamma:1.5)
set $nthreads=1
set $iosize=64k
define fileset name=other,path=$dir,size=$filesize,entries=7,dirwidth=3,prealloc
define fileset name=tree,path=$dir,size=$filesize,entries=$nfiles,dirwidth=6,prealloc=100
define process name=main,instances=1
{
  thread name=worker,memsize=10m,instances=$nthreads
  {
    flowop deletefile name=delete1,filesetname=tree
    flowop deletefile name=delete2,filesetname=tree
    flowop createfile name=create1,filesetname=tree,fd=1
    flowop writewholefile name=write1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=close1,fd=1
    flowop createfile name=create2,filesetname=tree,fd=3
    flowop appendfilerand name=append0,iosize=16k,fd=3
    flowop fsync name=fs1,fd=3
    flowop deletefile name=delete3,filesetname=tree
    flowop closefile name=close4,fd=3
    flowop createfile name=create3,filesetname=tree,fd=3
    flowop closefile name=close5,fd=3
    flowop openfile name=open1,filesetname=tree,fd=1
    flowop appendfile name=append1,iosize=16k,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open2,filesetname=tree,fd=1
    flowop readwholefile name=read1,fd=1,iosize=$iosize
    flowop closefile name=close3,fd=1
    flowop statfile name=stat1,filesetname=tree
    flowop read name=seqread,filesetname=other,fd=5,iosize=30k
    flowop write name=seqwrite,filesetname=other,fd=6,iosize=3k
    flowop read name=rot,filesetname=other,iosize=3k,opennext,iters=3
  }
}
run 1
